import UbiquityCore

/// A value of the key-value store as JSON: an object with one member, which names the type.
package struct KeyValueContent: Codable, Hashable, Sendable {
    package var string: String?
    package var integer: Int64?
    package var real: Double?
    package var bool: Bool?
    /// Seconds since 1970-01-01 UTC.
    package var date: Double?
    /// Base64.
    package var data: String?
    package var array: [KeyValueContent]?
    package var dictionary: [String: KeyValueContent]?

    package init(_ value: PropertyValue) {
        switch value {
        case .string(let text): string = text
        case .integer(let number): integer = number
        case .real(let number): real = number
        case .bool(let flag): bool = flag
        case .date(let seconds): date = seconds
        case .data(let bytes): data = Base64.encode(bytes)
        case .array(let values): array = values.map(KeyValueContent.init)
        case .dictionary(let values): dictionary = values.mapValues(KeyValueContent.init)
        }
    }

    /// Throws `.invalid` unless there is exactly one member, and it is well-formed.
    package func value() throws(UbiquityError) -> PropertyValue {
        var found = [PropertyValue]()
        if let string { found.append(.string(string)) }
        if let integer { found.append(.integer(integer)) }
        if let real { found.append(.real(real)) }
        if let bool { found.append(.bool(bool)) }
        if let date { found.append(.date(date)) }
        if let data {
            guard let bytes = Base64.decode(data) else { throw UbiquityError(.invalid, "'data' is not base64") }
            found.append(.data(bytes))
        }
        if let array {
            var values = [PropertyValue]()
            for element in array { values.append(try element.value()) }
            found.append(.array(values))
        }
        if let dictionary {
            var values = [String: PropertyValue]()
            for (key, element) in dictionary { values[key] = try element.value() }
            found.append(.dictionary(values))
        }
        guard found.count == 1, let only = found.first else {
            throw UbiquityError(
                .invalid, "a value has one member that names its type",
                remedy: "one of string, integer, real, bool, date, data, array and dictionary")
        }
        return only
    }
}

/// Sets a key. Its keys and values are in the body, the store and the key are in the path.
package struct KeyValueWrite: Codable, Hashable, Sendable {
    package var value: KeyValueContent
    package init(value: KeyValueContent) { self.value = value }
}

/// One set of a key.
package struct KeyValueVersion: Codable, Hashable, Sendable {
    /// Nil if the key was removed.
    package var value: KeyValueContent?
    /// Seconds since 1970-01-01 UTC. While the set is pending it is by this device's clock.
    package var time: Double
    /// The device that has made the set: 32 hexadecimal digits, and its name.
    package var device: String
    package var deviceName: String

    package init(value: KeyValueContent?, time: Double, device: String, deviceName: String) {
        self.value = value
        self.time = time
        self.device = device
        self.deviceName = deviceName
    }
}

/// A key with its value.
package struct KeyValueReport: Codable, Hashable, Sendable {
    package var store: String
    package var key: String
    package var current: KeyValueVersion
    /// The set before the current one. A list leaves it out.
    package var previous: KeyValueVersion?
    /// Whether the cloud does not have the set yet.
    package var isPending: Bool

    package init(
        store: String, key: String, current: KeyValueVersion, previous: KeyValueVersion?, isPending: Bool
    ) {
        self.store = store
        self.key = key
        self.current = current
        self.previous = previous
        self.isPending = isPending
    }
}

/// The keys of a store.
package struct KeyValueList: Codable, Hashable, Sendable {
    package var store: String
    /// The account whose values these are: a text that is the same for the same account on this device.
    package var account: String
    package var items: [KeyValueReport]
    /// Sets of all stores of the container that the cloud does not have yet.
    package var pending: Int
    /// Why the last exchange with the cloud failed; nil if it did not.
    package var failure: ControlFailure?

    package init(
        store: String, account: String, items: [KeyValueReport], pending: Int, failure: ControlFailure?
    ) {
        self.store = store
        self.account = account
        self.items = items
        self.pending = pending
        self.failure = failure
    }
}
