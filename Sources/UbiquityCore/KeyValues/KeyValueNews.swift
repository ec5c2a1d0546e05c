/// Why values of a store changed without a set of a program on this device. The numbers are Foundation's.
package enum KeyValueReason: Int, Hashable, Sendable, CaseIterable {
    /// Another device has set or removed them.
    case serverChange = 0
    /// The first download of the account's values has replaced values that were set before it.
    case initialSync = 1
    /// A set exceeded the store's limits. It has changed nothing.
    case quotaViolation = 2
    /// The device uses another account, with other values.
    case accountChange = 3

    /// The name in messages and on the command line.
    package var name: String {
        switch self {
        case .serverChange: "server-change"
        case .initialSync: "initial-sync"
        case .quotaViolation: "quota-violation"
        case .accountChange: "account-change"
        }
    }
}

/// Changed keys of a store. Values are not part of it: the receiver reads them from the store.
package struct KeyValueNews: Hashable, Sendable {
    package var store: KeyValueStoreID
    package var reason: KeyValueReason
    /// In the order of their bytes.
    package var keys: [KeyValueKey]

    package init(store: KeyValueStoreID, reason: KeyValueReason, keys: [KeyValueKey]) {
        self.store = store
        self.reason = reason
        self.keys = keys
    }

    /// One message for each store and reason.
    package static func grouped(
        _ changes: [(store: KeyValueStoreID, reason: KeyValueReason, key: KeyValueKey)]
    ) -> [KeyValueNews] {
        var keys = [KeyValueStoreID: [KeyValueReason: Set<KeyValueKey>]]()
        for change in changes { keys[change.store, default: [:]][change.reason, default: []].insert(change.key) }
        return keys.sorted { $0.key < $1.key }.flatMap { store, reasons in
            reasons.sorted { $0.key.rawValue < $1.key.rawValue }.map { reason, keys in
                KeyValueNews(store: store, reason: reason, keys: keys.sorted())
            }
        }
    }
}
