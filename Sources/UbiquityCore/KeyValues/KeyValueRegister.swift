/// The moment of a set: a hybrid time, and the device for a tie. All devices order two sets the same way.
///
/// The hybrid time is the cloud's wall clock, in nanoseconds. If a device has seen a later time before the set, the
/// time of the set is one nanosecond after that.
package struct KeyValueStamp: Hashable, Comparable, Sendable {
    package var time: Int64
    package var device: DeviceID

    package init(time: Int64, device: DeviceID) {
        self.time = time
        self.device = device
    }

    package static func < (left: Self, right: Self) -> Bool {
        (left.time, left.device) < (right.time, right.device)
    }
}

/// One set of a key.
package struct KeyValueEntry: Hashable, Sendable {
    /// The encoded `PropertyValue`; nil if the key was removed.
    package var value: [UInt8]?
    package var stamp: KeyValueStamp
    package var deviceName: String
    /// A random number of this set, so that its repetition is recognized.
    package var mark: UInt64

    package init(value: [UInt8]?, stamp: KeyValueStamp, deviceName: String, mark: UInt64) {
        self.value = value
        self.stamp = stamp
        self.deviceName = deviceName
        self.mark = mark
    }

    package var size: Int { PropertyValue.size(ofEncoded: value) }
}

/// The two latest sets of a key. Merging is commutative, associative and idempotent, so the order of arrival does not
/// matter.
package struct KeyValueRegister: Hashable, Sendable {
    package private(set) var current: KeyValueEntry
    /// The set before the current one, for inspection. It may be an overwritten set of this or another device.
    package private(set) var previous: KeyValueEntry?

    package init(_ current: KeyValueEntry, previous: KeyValueEntry? = nil) {
        self.current = current
        self.previous = previous
    }

    package enum Outcome: Hashable, Sendable {
        /// The set is the current one.
        case won
        /// A later set is the current one.
        case lost
        /// The register has this set already.
        case known
    }

    package mutating func merge(_ entry: KeyValueEntry) -> Outcome {
        if entry.mark == current.mark || entry.mark == previous?.mark { return .known }
        if current.stamp < entry.stamp {
            previous = current
            current = entry
            return .won
        }
        if previous.map({ $0.stamp < entry.stamp }) ?? true { previous = entry }
        return .lost
    }
}

/// A key's register with its place and its revision in the container's feed of key-values.
package struct KeyValueRecord: Hashable, Sendable {
    package var store: KeyValueStoreID
    package var key: KeyValueKey
    package var revision: Revision
    package var register: KeyValueRegister

    package init(store: KeyValueStoreID, key: KeyValueKey, revision: Revision, register: KeyValueRegister) {
        self.store = store
        self.key = key
        self.revision = revision
        self.register = register
    }

    /// Bytes of its values.
    package var bytes: Int { register.current.size + (register.previous?.size ?? 0) }
}

/// Times of sets.
package enum KeyValueClock {
    /// Nanoseconds. A smaller difference between the clocks of a device and the cloud can be the delay of the request.
    package static let tolerance: Int64 = 120_000_000_000

    /// The hybrid time of a set that arrives at the cloud.
    /// - Parameters:
    ///   - changedAt: the time of the set, by the device's clock.
    ///   - sentAt: the time of the request, by the same clock.
    ///   - seen: the latest hybrid time that the device had seen before the set.
    ///   - now: the cloud's clock.
    ///   - latest: the latest hybrid time in the store. A device cannot have seen a later one.
    package static func time(changedAt: Int64, sentAt: Int64, seen: Int64, now: Int64, latest: Int64) -> Int64 {
        let error = now.subtractingClamped(sentAt)
        let corrected = error.magnitude > tolerance.magnitude ? changedAt.addingClamped(error) : changedAt
        return max(min(corrected, now), min(seen, latest).addingClamped(1))
    }
}

extension Int64 {
    package func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }

    package func subtractingClamped(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        return overflow ? (other < 0 ? .max : .min) : difference
    }
}

/// The keys and bytes of a store, and the limits.
package struct KeyValueUsage: Hashable, Sendable {
    package var keys: Int
    package var bytes: Int

    package init(keys: Int = 0, bytes: Int = 0) {
        self.keys = keys
        self.bytes = bytes
    }

    /// The usage after a set.
    /// - Parameters:
    ///   - old: the encoded value that the set replaces; nil for none.
    ///   - new: the encoded value; nil to remove the key.
    package func replacing(_ old: [UInt8]?, with new: [UInt8]?) -> KeyValueUsage {
        KeyValueUsage(
            keys: keys + (new == nil ? 0 : 1) - (old == nil ? 0 : 1),
            bytes: bytes + PropertyValue.size(ofEncoded: new) - PropertyValue.size(ofEncoded: old))
    }

    /// Throws `.quotaExceeded` if the store exceeds a limit after a set. A set that takes no more keys and bytes than
    /// before is always allowed.
    package func requireAllowed(after before: KeyValueUsage) throws(UbiquityError) {
        if keys > KeyValueLimits.maximumKeys, keys > before.keys {
            throw UbiquityError(
                .quotaExceeded, "a key-value store has at most \(KeyValueLimits.maximumKeys) keys",
                remedy: "remove keys, or store the data in files")
        }
        if bytes > KeyValueLimits.maximumBytes, bytes > before.bytes {
            throw UbiquityError(
                .quotaExceeded,
                "the values of a key-value store have at most \(KeyValueLimits.maximumBytes) bytes; this set makes it "
                    + "\(bytes)",
                remedy: "store a smaller value, remove keys, or store the data in files")
        }
    }
}
