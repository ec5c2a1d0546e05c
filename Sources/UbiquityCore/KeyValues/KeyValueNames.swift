/// The key of a value: 1 to 64 bytes of UTF-8 without a zero byte. Keys are compared by their bytes.
package struct KeyValueKey: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let text: String

    /// Throws `.invalidName`.
    package init(_ text: String) throws(UbiquityError) {
        guard (1...KeyValueLimits.maximumKeyLength).contains(text.utf8.count), !text.utf8.contains(0) else {
            throw UbiquityError(
                .invalidName, "a key has 1 to \(KeyValueLimits.maximumKeyLength) bytes of UTF-8 without a zero byte",
                at: String(text.prefix(KeyValueLimits.maximumKeyLength)), remedy: "choose a shorter key")
        }
        self.text = text
    }

    package var description: String { text }

    package static func == (left: Self, right: Self) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    package func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }

    package static func < (left: Self, right: Self) -> Bool {
        left.text.utf8.lexicographicallyPrecedes(right.text.utf8)
    }
}

/// The id of a store in a container, as a rule the app's. The rules of the name are those of a container's.
package struct KeyValueStoreID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let name: String

    /// The store of a program that names none.
    package static let standard = KeyValueStoreID(known: "default")
    /// Reserved for this program: it records the highest version that has used the container.
    package static let reserved = KeyValueStoreID(known: "ubiquity")

    /// Throws `.invalidName`.
    package init(_ name: String) throws(UbiquityError) {
        guard ContainerID(name) != nil else {
            throw UbiquityError(
                .invalidName, "not an id for a key-value store: \"\(name.prefix(80))\"", remedy: ContainerID.rules)
        }
        self.name = name
    }

    private init(known name: String) { self.name = name }

    package var description: String { name }
    package static func < (left: Self, right: Self) -> Bool { left.name < right.name }
}

/// Limits of the key-value store.
package enum KeyValueLimits {
    /// Keys of one store.
    package static let maximumKeys = 1024
    /// Bytes of all values of a store together. One value may have all of them.
    package static let maximumBytes = 1_048_576
    /// Bytes of a key in UTF-8. Keys do not count towards `maximumBytes`.
    package static let maximumKeyLength = 64
    /// Stores of one container: bounds the space of a container at the cloud, which no quota bounds.
    package static let maximumStores = 64
    /// Removed keys of a store that are remembered. A device that was away longer reads the complete store.
    package static let keptRemovals = 1024
    /// Changes in one push.
    package static let maximumChanges = 2048
    /// Bytes of values in one push, beyond which the next change waits for the next push. One value may exceed it.
    package static let pushBytes = 2 << 20
    /// Bytes of values after which a page of records ends.
    package static let pageBytes = 4 << 20
    /// Bytes of an encoded push or page: the values in base64, with a value and its predecessor in the last record.
    package static let messageLength = 16 << 20
}
