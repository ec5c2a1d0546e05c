package import UbiquityCore

/// A key's row on this device.
struct KeyValueRow: Hashable {
    var store: KeyValueStoreID
    var key: KeyValueKey
    /// The shown set and the one before. While it is pending, the shown set is of this device, and its time is by the
    /// device's clock.
    var register: KeyValueRegister
    /// The revision of the last known record at the cloud.
    var revision = Revision.zero
    /// Whether the set must still be sent.
    var isPending = false
    /// The latest hybrid time that the device had seen before the set.
    var seen: Int64 = 0
    /// Whether the cloud has decided about the time of the pending set before.
    var isFinal = false
    /// Whether the set was made while the device was signed out, and no account has it yet.
    var isSignedOut = false
    /// The number of the last complete reading of the feed that had the key.
    var epoch: Int64 = 0

    init(store: KeyValueStoreID, key: KeyValueKey, register: KeyValueRegister) {
        self.store = store
        self.key = key
        self.register = register
    }

    /// A synced row.
    init(_ record: KeyValueRecord, epoch: Int64) {
        self.init(store: record.store, key: record.key, register: record.register)
        revision = record.revision
        self.epoch = epoch
    }

    var value: [UInt8]? { register.current.value }

    var item: KeyValueItem {
        KeyValueItem(
            store: store, key: key, current: register.current, previous: register.previous, isPending: isPending)
    }
}

/// A key with its value, as a program sees it.
package struct KeyValueItem: Hashable, Sendable {
    package var store: KeyValueStoreID
    package var key: KeyValueKey
    package var current: KeyValueEntry
    /// The overwritten set before, also of a removed key.
    package var previous: KeyValueEntry?
    /// Whether the cloud does not have the set yet.
    package var isPending: Bool
}

/// An account of the device, with its position in the cloud's feed.
struct KeyValueAccountRow: Hashable {
    var number: Int64
    var point = KeyValuePoint()
    /// Whether the account's values were once read completely.
    var hasSynced = false
    /// Whether the feed is being read from its beginning, and which of these readings it is.
    var isReading = true
    var epoch: Int64 = 1
    /// Items that the cloud had forgotten when this reading began.
    var forgotten = Revision.zero
    /// The latest hybrid time seen.
    var clock: Int64 = 0
}
