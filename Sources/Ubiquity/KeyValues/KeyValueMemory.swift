import UbiquityControl
import UbiquityCore

/// The values of a store in the memory of this process, and the sets that the daemon has not written yet.
struct KeyValueMemory {
    /// The daemon's values, with the sets of this process.
    private(set) var values: [KeyValueKey: PropertyValue] = [:]
    /// Sets that the daemon has not written yet, the oldest first. A nil value removes the key.
    private(set) var unwritten: [(key: KeyValueKey, value: PropertyValue?)] = []
    private(set) var account: String?
    private(set) var hasLoaded = false

    /// Whether memory and disk agree.
    var isWritten: Bool { hasLoaded && unwritten.isEmpty }

    /// Sets a value in memory. Throws `.quotaExceeded` or `.invalid`, and changes nothing.
    mutating func set(_ value: PropertyValue?, _ key: KeyValueKey) throws(UbiquityError) {
        if case .real(let number) = value, !number.isFinite {
            throw UbiquityError(.invalid, "a number must be finite", at: key.text)
        }
        let new = try value?.encoded(), old = try values[key]?.encoded()
        var before = KeyValueUsage(keys: values.count)
        for value in values.values { before.bytes += PropertyValue.size(ofEncoded: try value.encoded()) }
        try before.replacing(old, with: new).requireAllowed(after: before)
        values[key] = value
        unwritten.removeAll { $0.key == key }
        unwritten.append((key, value))
    }

    /// The daemon has written a set.
    mutating func wrote(_ key: KeyValueKey, _ value: PropertyValue?) {
        unwritten.removeAll { $0.key == key && $0.value == value }
    }

    /// The daemon refused a set. The next list has the value that it has.
    mutating func refused(_ key: KeyValueKey) { unwritten.removeAll { $0.key == key } }

    /// Takes the daemon's values over.
    /// - Returns: the keys whose values changed, and whether they are of another account.
    mutating func load(_ list: KeyValueList) throws(UbiquityError) -> (keys: [KeyValueKey], isOtherAccount: Bool) {
        var next = [KeyValueKey: PropertyValue]()
        for item in list.items {
            if let value = try item.current.value?.value() { next[try KeyValueKey(item.key)] = value }
        }
        for set in unwritten { next[set.key] = set.value }
        let keys = Set(values.keys).union(next.keys).filter { values[$0] != next[$0] }.sorted()
        let isOtherAccount = hasLoaded && account != list.account, isFirst = !hasLoaded
        values = next
        account = list.account
        hasLoaded = true
        return (isFirst ? [] : keys, isOtherAccount)
    }
}
