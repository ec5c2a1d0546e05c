internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// A fault of the key-value store that the simulator plants.
package enum KeyValueFault: String, CaseIterable, Sendable {
    /// The cloud trusts the clocks of devices.
    case trustedClocks = "trusted-clocks"
    /// The limits count the sets of one device only.
    case separateLimits = "separate-limits"
    /// The answer to a push also ends the wait of a set made since.
    case forgottenSets = "forgotten-sets"
    /// All accounts of a device share its values.
    case sharedAccounts = "shared-accounts"

    var rules: KeyValueRules {
        var rules = KeyValueRules()
        switch self {
        case .trustedClocks: rules.correctsClocks = false
        case .separateLimits: rules.limitsMergedStores = false
        case .forgottenSets: rules.keepsNewerSets = false
        case .sharedAccounts: rules.separatesAccounts = false
        }
        return rules
    }
}

/// One life of key-values on several devices and two accounts: sets, lost requests and answers, kills, switches of the
/// account, clocks that are a year off, and clouds that are restored from a backup.
///
/// The devices and the clouds use the real tables, in memory. In the end all devices of an account have the cloud's
/// values, and `KeyValueLedger` compares them with the sets that were made.
package struct RandomKeyValues {
    private static let keys = ["theme", "level", "place", "é", "list", "score"]
    /// Nanoseconds.
    private static let year: Int64 = 365 * 86_400_000_000_000
    private static let epoch: Int64 = 1_800_000_000_000_000_000

    private let random: SeededRandom
    private let rules: KeyValueRules
    private let steps: Int
    private let hasLargeValues: Bool
    private let world = KeyValueClockwork()
    private var devices: [KeyValueDevice] = []
    private var clouds: [(cloud: KeyValueMemory, incarnation: UInt64)] = []
    private var ledger = KeyValueLedger()
    private var nextValue: Int64 = 0

    package init(seed: UInt64, fault: KeyValueFault? = nil) {
        random = SeededRandom(seed)
        rules = fault?.rules ?? KeyValueRules()
        steps = 40 + random.below(80)
        hasLargeValues = random.chance(0.1)
    }

    /// Returns the failure, or nil.
    package mutating func play() -> String? {
        do {
            for account in 0..<2 { clouds.append((try KeyValueMemory(rules: rules), UInt64(account + 1))) }
            for number in 0..<2 + random.below(3) {
                let error: Int64 = random.pick([0, 0, 0, 5_000_000_000, -60_000_000_000, Self.year, -Self.year])
                devices.append(
                    try KeyValueDevice(
                        number, clock: world.clock(Self.epoch + error), random: random, rules: rules,
                        account: random.pick([0, 0, 0, 1, nil])))
            }
            for _ in 0..<steps { try step() }
            return try heal()
        } catch let failure as KeyValueFailure {
            return failure.reason
        } catch {
            return "an error: \(error)"
        }
    }

    // MARK: Steps

    private mutating func step() throws {
        let index = random.below(devices.count)
        switch random.below(20) {
        case 0..<7: try set(index)
        case 7..<11: try pull(index, loss: 0.15)
        case 11..<14: try send(index)
        case 14..<16: try deliver(index)
        case 16: try restart(index, account: devices[index].account)
        case 17: try restart(index, account: random.pick([0, 1, nil]))
        case 18: if random.chance(0.1) { try restore() }
        default: break
        }
        world.advance(random.pick([1_000_000, 700_000_000, 3_000_000_000, 400_000_000_000]))
    }

    private mutating func set(_ index: Int) throws {
        let key = try KeyValueKey(random.pick(Self.keys)), device = devices[index]
        nextValue += 1
        var value: PropertyValue? = .array([.integer(nextValue), .integer(Int64(device.account ?? -1))])
        if random.chance(0.15) { value = nil } else if hasLargeValues, random.chance(0.5) {
            value = .array([
                .integer(nextValue), .integer(Int64(device.account ?? -1)),
                .data([UInt8](repeating: 0, count: 300_000 + random.below(300_000))),
            ])
        }
        let before = try device.values(), old = try device.replica.item(key, in: .standard)
        let fails = random.chance(0.05)
        if fails { FaultPoints.setHook { $0 == "kv.write" ? UbiquityError(.io, "the disk failed") : nil } }
        defer { if fails { FaultPoints.setHook(nil) } }
        do {
            try device.replica.set(value, key, in: .standard)
        } catch let error as UbiquityError where error.code == .quotaExceeded || fails {
            guard try device.values() == before else { throw KeyValueFailure("a failed set has changed a value") }
            return
        }
        guard let item = try device.replica.item(key, in: .standard), item.current.mark != old?.current.mark else {
            // Removing a key that is not there is no set.
            return
        }
        ledger.add(
            KeyValueLedger.Made(
                mark: item.current.mark, key: key, time: world.now, overwrites: old?.current.mark,
                account: device.account, device: index))
    }

    private mutating func pull(_ index: Int, loss: Double) throws {
        guard let account = devices[index].account, !random.chance(loss) else { return }
        let device = devices[index], (cloud, incarnation) = clouds[account]
        let limit = random.chance(0.3) ? 1 : KeyValueLimits.pageBytes
        for _ in 0..<40 {
            let page = try cloud.page(after: device.replica.point(), incarnation: incarnation, limit: limit)
            if random.chance(loss) { return }
            let before = try device.values(), isFirst = try !device.replica.hasSynced()
            let (news, hasMore) = try device.replica.apply(page)
            try check(news, device, before)
            if isFirst { try ledger.dropOverwritten(on: device, index) }
            guard hasMore else { return }
        }
        throw KeyValueFailure("the feed has no end")
    }

    /// Sends a push. Its answer is lost, or arrives later.
    private mutating func send(_ index: Int) throws {
        let device = devices[index]
        guard let account = device.account, try device.replica.hasSynced(), let push = try device.replica.nextPush(),
            !random.chance(0.15)
        else { return }
        let results = try clouds[account].cloud.push(push, now: Timestamp(nanoseconds: Self.epoch + world.now))
        ledger.record(results, of: push, account: account)
        devices[index].arriving = random.chance(0.15) ? nil : (push, results)
    }

    private mutating func deliver(_ index: Int) throws {
        guard let (push, results) = devices[index].arriving else { return }
        devices[index].arriving = nil
        let before = try devices[index].values()
        try check(devices[index].replica.apply(results, of: push), devices[index], before)
    }

    /// A kill, and perhaps a switch of the account.
    private mutating func restart(_ index: Int, account: Int?) throws {
        let before = try devices[index].values(), old = devices[index].account
        try devices[index].restart(account: account)
        guard old != account else {
            guard try devices[index].values() == before else { throw KeyValueFailure("a kill has changed a value") }
            return
        }
        try check(devices[index].replica.arrival, devices[index], before)
        if account != nil { try ledger.handOver(to: devices[index], index) }
    }

    /// The cloud loses its latest changes.
    private mutating func restore() throws {
        let index = random.below(clouds.count)
        let last = try clouds[index].cloud.records().map(\.revision.number).max() ?? 0
        try clouds[index].cloud.restore(before: Revision(max(0, last - Int64(random.below(4)))))
        clouds[index].incarnation += 10
        ledger.isRestored = true
        for device in devices.indices where devices[device].account == index { devices[device].arriving = nil }
    }

    /// The news name exactly the keys that show another value, and refused sets.
    private func check(_ news: [KeyValueNews], _ device: KeyValueDevice, _ before: [KeyValueKey: [UInt8]]) throws {
        let after = try device.values()
        let changed = Set(before.keys).union(after.keys).filter { before[$0] != after[$0] }
        let told = Set(news.flatMap(\.keys))
        let refused = Set(news.filter { $0.reason == .quotaViolation }.flatMap(\.keys))
        guard changed.isSubset(of: told), told.subtracting(refused).isSubset(of: changed) else {
            throw KeyValueFailure("the news are \(told.sorted()), and the changed keys \(changed.sorted())")
        }
    }

    // MARK: The end

    private mutating func heal() throws -> String? {
        // Sets of a signed-out device come to one of the accounts.
        for index in devices.indices where devices[index].account == nil { try restart(index, account: 0) }
        for account in 0..<2 {
            for index in devices.indices { try restart(index, account: account) }
            for _ in 0..<4 {
                for index in devices.indices {
                    try pull(index, loss: 0)
                    while let push = try devices[index].replica.nextPush() {
                        let results = try clouds[account].cloud.push(
                            push, now: Timestamp(nanoseconds: Self.epoch + world.now))
                        ledger.record(results, of: push, account: account)
                        devices[index].arriving = (push, results)
                        try deliver(index)
                    }
                    world.advance(1_000_000_000)
                }
            }
            let records = try clouds[account].cloud.records()
            var values = [KeyValueKey: [UInt8]]()
            for record in records { values[record.key] = record.register.current.value }
            for device in devices {
                guard try device.values() == values, try device.replica.pendingCount() == 0 else {
                    throw KeyValueFailure("device \(device.number) differs from account \(account)")
                }
            }
            try ledger.check(records, account: account)
        }
        try ledger.checkNothingIsLost()
        return nil
    }
}

struct KeyValueFailure: Error {
    let reason: String
    init(_ reason: String) { self.reason = reason }
}

/// The time of a simulated world, in nanoseconds since its beginning.
final class KeyValueClockwork: Sendable {
    private let time = Lock<Int64>(0)

    var now: Int64 { time.withLock { $0 } }
    func advance(_ nanoseconds: Int64) { time.withLock { $0 += nanoseconds } }
    func clock(_ start: Int64) -> KeyValueClockFace { KeyValueClockFace(world: self, start: start) }
}

/// A device's clock, perhaps a wrong one.
struct KeyValueClockFace: Timekeeper {
    let world: KeyValueClockwork
    let start: Int64

    func now() -> Timestamp { Timestamp(nanoseconds: start + world.now) }
    func uptime() -> Duration { .nanoseconds(world.now) }
    func sleep(for duration: Duration) async throws {}
}

/// A device of a simulated world.
struct KeyValueDevice {
    let number: Int
    private let database: KeyValueDatabase
    private let clock: KeyValueClockFace
    private let random: SeededRandom
    private let rules: KeyValueRules
    /// Nil while the device is signed out.
    private(set) var account: Int?
    private(set) var replica: KeyValueReplica
    /// An answer on its way.
    var arriving: (push: KeyValuePush, results: [KeyValueResult])?

    init(
        _ number: Int, clock: KeyValueClockFace, random: SeededRandom, rules: KeyValueRules, account: Int?
    ) throws {
        self.number = number
        self.clock = clock
        self.random = random
        self.rules = rules
        self.account = account
        database = try KeyValueDatabase(path: nil)
        replica = try Self.open(database, number, clock, random, rules, account)
    }

    private static func open(
        _ database: KeyValueDatabase, _ number: Int, _ clock: KeyValueClockFace, _ random: SeededRandom,
        _ rules: KeyValueRules, _ account: Int?
    ) throws -> KeyValueReplica {
        try KeyValueReplica(
            database,
            account: KeyValueReplica.Account(
                name: account.map { "account \($0)" } ?? "signed out", isSignedOut: account == nil),
            device: DeviceID(high: 7, low: UInt64(number)), deviceName: "device \(number)", timekeeper: clock,
            random: random, rules: rules)
    }

    mutating func restart(account: Int?) throws {
        arriving = nil
        self.account = account
        replica = try Self.open(database, number, clock, random, rules, account)
    }

    func values() throws -> [KeyValueKey: [UInt8]] {
        var values = [KeyValueKey: [UInt8]]()
        for item in try replica.items(in: .standard) { values[item.key] = item.current.value }
        return values
    }
}
