import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Commands on the key-value stores of the mounted container.
struct KeyValueCommands: MountCommand {
    let parts: MountParts
    let events: EventHub

    init(parts: MountParts, events: EventHub) {
        self.parts = parts
        self.events = events
        let timekeeper = parts.timekeeper
        parts.keyValues?.relay.bind { news in
            guard events.hasListeners else { return false }
            for news in news { events.send(ControlEvent(news, at: timekeeper.now())) }
            return true
        }
    }

    /// Sends the news of a switch of the account to the listeners of the mount, if there are any.
    func announce() {
        guard events.hasListeners else { return }
        for event in takeUnheard() { events.send(event) }
    }

    /// Events that happened before anybody listened.
    func takeUnheard() -> [ControlEvent] {
        (parts.keyValues?.relay.takeUnheard() ?? []).map { ControlEvent($0, at: parts.timekeeper.now()) }
    }

    private func stores() throws -> MountKeyValues {
        guard let stores = parts.keyValues else {
            throw UbiquityError(
                .notSupported, "key-values are turned off for this container", at: parts.settings.container.name,
                remedy: "remove 'key-value = no' or 'key-value.\(parts.settings.container.name) = no' from the "
                    + "configuration, and mount again")
        }
        return stores
    }

    func list(_ store: String) async throws -> KeyValueList {
        let stores = try stores(), store = try KeyValueStoreID(store)
        return try await pool.run {
            let items = try stores.replica.items(in: store)
            return KeyValueList(
                store: store.name, account: stores.account,
                items: try items.map { try KeyValueReport($0, withPrevious: false) },
                pending: try stores.replica.pendingCount(), failure: stores.sync.failure.map(ControlFailure.init))
        }
    }

    func get(_ store: String, _ key: String) async throws -> KeyValueReport {
        let stores = try stores(), store = try KeyValueStoreID(store), key = try KeyValueKey(key)
        return try await pool.run {
            guard let item = try stores.replica.item(key, in: store) else {
                throw UbiquityError(
                    .notFound, "the store \"\(store)\" has no such key", at: key.text,
                    remedy: "'ubiquity kv list' shows the keys")
            }
            return try KeyValueReport(item, withPrevious: true)
        }
    }

    /// - Parameter value: nil to remove the key.
    func set(_ store: String, _ key: String, _ value: KeyValueContent?) async throws -> KeyValueReport {
        let stores = try stores(), store = try KeyValueStoreID(store), key = try KeyValueKey(key)
        let property = try value?.value()
        do {
            let report = try await pool.run {
                try stores.replica.set(property, key, in: store)
                guard let item = try stores.replica.item(key, in: store) else {
                    throw UbiquityError(.notFound, "the store \"\(store)\" has no such key", at: key.text)
                }
                return try KeyValueReport(item, withPrevious: false)
            }
            stores.sync.changesWereMade()
            return report
        } catch let error as UbiquityError where error.code == .quotaExceeded {
            stores.relay.tell([KeyValueNews(store: store, reason: .quotaViolation, keys: [key])])
            throw error
        }
    }

    func synchronize(_ store: String) async throws -> KeyValueList {
        try await stores().sync.synchronize()
        return try await list(store)
    }
}

extension KeyValueReport {
    init(_ item: KeyValueItem, withPrevious: Bool) throws {
        self.init(
            store: item.store.name, key: item.key.text, current: try KeyValueVersion(item.current),
            previous: withPrevious ? try item.previous.map { try KeyValueVersion($0) } : nil,
            isPending: item.isPending)
    }
}

extension KeyValueVersion {
    init(_ entry: KeyValueEntry) throws {
        self.init(
            value: try entry.value.map { KeyValueContent(try PropertyValue(encoded: $0)) },
            time: Timestamp(nanoseconds: entry.stamp.time).seconds, device: entry.stamp.device.description,
            deviceName: entry.deviceName)
    }
}

extension ControlEvent {
    init(_ news: KeyValueNews, at time: Timestamp) {
        self.init(.keyValuesChanged, at: time)
        store = news.store.name
        reason = news.reason.name
        changedKeys = news.keys.map(\.text)
    }
}
