internal import UbiquityCore
internal import UbiquityIndex

/// The reference model of key-values: the sets that were made, and what must be true of the cloud's values in the end.
struct KeyValueLedger {
    /// A set that a device has made.
    struct Made {
        var mark: UInt64
        var key: KeyValueKey
        /// The true time.
        var time: Int64
        /// The set that the device showed before.
        var overwrites: UInt64?
        /// Nil if the device was signed out.
        var account: Int?
        var device: Int
    }

    private struct Place: Hashable {
        var device: Int
        var account: Int?
        var key: KeyValueKey
    }

    /// Nanoseconds. The cloud does not correct a clock that is less than two minutes off.
    private static let tolerance: Int64 = 121_000_000_000

    private var made: [UInt64: Made] = [:]
    /// The last set of each device and key that the cloud has not decided about.
    private var open: [Place: UInt64] = [:]
    /// The sets that each account's cloud has accepted. Another set may have won. Two sets of a signed-out device may
    /// come to different accounts.
    private var accepted: [Int: Set<UInt64>] = [:]
    private var refused: Set<UInt64> = []
    /// Whether a cloud has lost changes. Then their order is not compared.
    var isRestored = false

    mutating func add(_ set: Made) {
        made[set.mark] = set
        open[Place(device: set.device, account: set.account, key: set.key)] = set.mark
    }

    mutating func record(_ results: [KeyValueResult], of push: KeyValuePush, account: Int) {
        for (change, result) in zip(push.changes, results) {
            if result.outcome == .refused {
                refused.insert(change.entry.mark)
            } else {
                accepted[account, default: []].insert(change.entry.mark)
            }
        }
    }

    /// The first download has replaced earlier sets of a device.
    mutating func dropOverwritten(on device: KeyValueDevice, _ index: Int) throws {
        for (place, mark) in open where place.device == index && place.account == device.account {
            if try device.replica.item(place.key, in: .standard)?.current.mark != mark { open[place] = nil }
        }
    }

    /// A device has signed in: its sets made before belong to the account, unless the account had no space.
    mutating func handOver(to device: KeyValueDevice, _ index: Int) throws {
        for (place, mark) in open where place.device == index && place.account == nil {
            open[place] = nil
            guard try device.replica.item(place.key, in: .standard)?.current.mark == mark else { continue }
            open[Place(device: index, account: device.account, key: place.key)] = mark
        }
    }

    // MARK: The end

    func check(_ records: [KeyValueRecord], account: Int) throws {
        var usage = KeyValueUsage()
        for record in records { usage = usage.replacing(nil, with: record.register.current.value) }
        guard usage.keys <= KeyValueLimits.maximumKeys, usage.bytes <= KeyValueLimits.maximumBytes else {
            throw KeyValueFailure("account \(account) has \(usage.keys) keys and \(usage.bytes) bytes")
        }
        for record in records {
            guard let winner = made[record.register.current.mark] else {
                throw KeyValueFailure("nobody has made the set of \(record.key)")
            }
            guard winner.account == nil || winner.account == account else {
                throw KeyValueFailure("\(record.key) of account \(account) is a set of another account")
            }
            if !isRestored { try checkOrder(winner, account) }
        }
    }

    /// No set that has seen the winner, and none that is clearly later, may have lost.
    private func checkOrder(_ winner: Made, _ account: Int) throws {
        let accepted = accepted[account] ?? []
        for set in made.values where set.key == winner.key && set.account == winner.account {
            guard set.mark != winner.mark, accepted.contains(set.mark), !refused.contains(set.mark) else { continue }
            if set.overwrites == winner.mark {
                throw KeyValueFailure("\(set.key): a set that has seen the winner has lost")
            }
            // The initial sync and a sign-in decide by other rules.
            if set.account != nil, set.time > winner.time + Self.tolerance {
                throw KeyValueFailure("\(set.key): a set \((set.time - winner.time) / 1_000_000_000) s later has lost")
            }
        }
    }

    func checkNothingIsLost() throws {
        for (place, mark) in open where !refused.contains(mark) {
            guard let account = place.account, accepted[account]?.contains(mark) != true else { continue }
            throw KeyValueFailure("the cloud has never got the last set of \(place.key) on device \(place.device)")
        }
    }
}
