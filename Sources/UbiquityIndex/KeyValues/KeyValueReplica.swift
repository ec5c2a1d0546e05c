package import UbiquityCore
internal import UbiquitySystem

/// The key-values of one container and account on this device: sets of programs, and the answers of the cloud.
///
/// A set is durable when it returns, whether or not the cloud is reachable. It stays pending until the cloud has
/// decided about it. The cloud is the only judge, so all devices come to the same value. Until then this device shows
/// its own set. Every call is one transaction, so a kill at any moment loses nothing that a call has returned.
package final class KeyValueReplica: Sendable {
    /// The account in use on the device.
    package struct Account: Hashable, Sendable {
        /// Unique on the device.
        package var name: String
        /// Whether the device is signed out. The next account that it uses gets the values set meanwhile.
        package var isSignedOut: Bool

        package init(name: String, isSignedOut: Bool) {
            self.name = name
            self.isSignedOut = isSignedOut
        }
    }

    private let database: KeyValueDatabase
    private let account: Account
    private let number: Int64
    private let device: (id: DeviceID, name: String)
    private let timekeeper: any Timekeeper
    private let random: any RandomSource
    private let rules: KeyValueRules
    /// When the pending sets of this process were made, in uptime of the machine, by their marks. It survives a jump of
    /// the wall clock.
    private let moments = Lock<[UInt64: Duration]>([:])
    /// The keys that show another value because the device now uses another account.
    package let arrival: [KeyValueNews]

    /// Opens the values of an account. If the device used another account before, this is the switch.
    package init(
        _ database: KeyValueDatabase, account: Account, device: DeviceID, deviceName: String,
        timekeeper: any Timekeeper, random: any RandomSource, rules: KeyValueRules = KeyValueRules()
    ) throws {
        self.database = database
        self.account = account
        self.device = (device, deviceName)
        self.timekeeper = timekeeper
        self.random = random
        self.rules = rules
        let name = rules.separatesAccounts ? account.name : ""
        (number, arrival) = try database.write { db in
            let number = try KeyValueTable.number(of: name, db)
            let last = try KeyValueTable.accountInUse(db)
            guard last != number else { return (number, []) }
            let here = KeyValueTable(db: db, account: number)
            guard let last else {
                try KeyValueTable.use(number, db)
                return (number, [])
            }
            let news = try KeyValueSwitch(from: KeyValueTable(db: db, account: last), to: here).run(
                handsOver: !account.isSignedOut)
            try KeyValueTable.use(number, db)
            return (number, news)
        }
    }

    private func read<T>(_ body: (KeyValueTable) throws -> T) throws -> T {
        try database.read { try body(KeyValueTable(db: $0, account: number)) }
    }

    private func write<T>(_ body: (KeyValueTable) throws -> T) throws -> T {
        try database.write { try body(KeyValueTable(db: $0, account: number)) }
    }

    // MARK: Programs

    /// Sets a value, or removes the key. Durable when it returns. It changes nothing if it throws.
    /// - Throws: `.quotaExceeded`, `.invalid` for a value that is nested too deep, `.io`, `.noSpace`.
    package func set(_ value: PropertyValue?, _ key: KeyValueKey, in store: KeyValueStoreID) throws {
        let bytes = try value?.encoded(), mark = random.next()
        let made = timekeeper.uptime()
        try write { table in
            let old = try table.row(store, key)
            // Removing a key that is not there is no change.
            if bytes == nil, old?.value == nil { return }
            let before = try table.usage(of: store)
            try before.replacing(old?.value, with: bytes).requireAllowed(after: before)
            var state = try table.state()
            let entry = KeyValueEntry(
                value: bytes, stamp: KeyValueStamp(time: timekeeper.now().nanoseconds, device: device.id),
                deviceName: device.name, mark: mark)
            var row = KeyValueRow(
                store: store, key: key, register: KeyValueRegister(entry, previous: old?.register.current))
            row.revision = old?.revision ?? .zero
            row.epoch = old?.epoch ?? 0
            row.isPending = true
            row.seen = state.hasSynced ? state.clock : 0
            // The set before may be on its way: the next one must be later than that, too.
            state.clock = state.clock.addingClamped(1)
            try table.put(state)
            row.isSignedOut = account.isSignedOut
            try table.put(row)
        }
        moments.withLock { moments in
            if moments.count >= Self.rememberedMoments { moments = [:] }
            moments[mark] = made
        }
    }

    private static let rememberedMoments = 10_000

    /// A key that has a value, or that was removed and has an overwritten one. Nil for any other.
    package func item(_ key: KeyValueKey, in store: KeyValueStoreID) throws -> KeyValueItem? {
        try read { try $0.row(store, key)?.item }
    }

    /// The keys with a value, in the order of their bytes.
    package func items(in store: KeyValueStoreID) throws -> [KeyValueItem] {
        try read { try $0.rows("store = ? AND size IS NOT NULL", [.text(store.name)]).map(\.item) }
            .sorted { $0.key < $1.key }
    }

    package func stores() throws -> [KeyValueStoreID] { try read { try $0.stores() } }

    // MARK: To the cloud

    /// The number of sets that the cloud does not have yet.
    package func pendingCount() throws -> Int { try read { try $0.pendingCount() } }

    /// Whether the account's values were read completely, so that sets may be sent.
    package func hasSynced() throws -> Bool { try read { try $0.state().hasSynced } }

    /// The oldest pending sets, as many as one push may have. Nil if there are none.
    package func nextPush() throws -> KeyValuePush? {
        let now = timekeeper.now(), uptime = timekeeper.uptime()
        let moments = moments.withLock { $0 }
        let rows = try read { try $0.rows("pending <> 0 ORDER BY number LIMIT ?", [.int(Self.pushLimit)]) }
        var changes = [KeyValueChange](), bytes = 0, stores = Set<KeyValueStoreID>()
        for row in rows {
            guard bytes < KeyValueLimits.pushBytes, stores.count < Self.storesPerPush || stores.contains(row.store)
            else { break }
            var entry = row.register.current
            if !row.isFinal, let made = moments[entry.mark] {
                entry.stamp.time = now.nanoseconds.subtractingClamped((uptime - made).wholeNanoseconds)
            }
            changes.append(
                KeyValueChange(store: row.store, key: row.key, entry: entry, seen: row.seen, isFinal: row.isFinal))
            bytes += entry.size
            stores.insert(row.store)
        }
        return changes.isEmpty ? nil : KeyValuePush(device: device.id, sentAt: now, changes: changes)
    }

    private static let pushLimit = Int64(KeyValueLimits.maximumChanges)
    /// The answer to a push may have all values of its stores.
    private static let storesPerPush = 4

    /// Applies the cloud's results of a push.
    /// - Returns: the keys that show another value now, or whose set was refused.
    package func apply(_ results: [KeyValueResult], of push: KeyValuePush) throws -> [KeyValueNews] {
        let news = try write { table in
            var state = try table.state()
            var changes = [(store: KeyValueStoreID, reason: KeyValueReason, key: KeyValueKey)]()
            for (change, result) in zip(push.changes, results) {
                if let record = result.record {
                    state.clock = max(state.clock, record.register.current.stamp.time)
                }
                guard let row = try table.row(change.store, change.key), row.isPending,
                    row.register.current.mark == change.entry.mark || !rules.keepsNewerSets
                else { continue }
                if let record = result.record {
                    try table.put(KeyValueRow(record, epoch: state.epoch))
                } else {
                    try table.remove(row)
                }
                // A later record arrived before this answer, while the set was pending, and was not stored.
                if row.revision > result.record?.revision ?? .zero {
                    state.point.revision = min(state.point.revision, Revision(row.revision.number - 1))
                }
                if result.outcome == .refused {
                    changes.append((row.store, .quotaViolation, row.key))
                } else if result.record?.register.current.value != row.value {
                    changes.append((row.store, .serverChange, row.key))
                }
            }
            try table.put(state)
            return KeyValueNews.grouped(changes)
        }
        moments.withLock { moments in for change in push.changes { moments[change.entry.mark] = nil } }
        return news
    }

    // MARK: From the cloud

    /// The start of the next read of the feed.
    package func point() throws -> KeyValuePoint { try read { try $0.state().point } }

    /// Applies a page that was read from `point()`.
    /// - Returns: the keys that show another value now, and whether the feed continues.
    package func apply(_ page: KeyValuePage) throws -> (news: [KeyValueNews], hasMore: Bool) {
        try write { try KeyValueReading(table: $0).apply(page) }
    }
}
