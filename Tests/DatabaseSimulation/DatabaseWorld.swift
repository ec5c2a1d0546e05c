import UbiquityDatabase
import GRDB
import UbiquityCore

/// A world of devices with one database. A seed draws the schema, the history, crashes, delays and clocks. At the end
/// everything arrives; then all tables must be equal on all devices, and equal to the reference model.
package struct DatabaseWorld {
    package struct Failure: Error, CustomStringConvertible {
        package var description: String
    }

    private static let day: Int64 = 86_400_000

    private let seed: UInt64
    private let random: SimulationRandom
    private let schema: RandomSchema
    private let time = WorldTime()
    private let cloud = SimulatedFolderCloud()
    private var clocks: [SimulatedClock] = []
    private var devices: [SimulatedDatabase] = []
    private var model = ReferenceModel()
    private let fault: DatabaseFault?
    /// The steps so far, for people.
    package private(set) var history: [String] = []

    package init(seed: UInt64, fault: DatabaseFault? = nil) {
        self.seed = seed
        self.fault = fault
        random = SimulationRandom(seed)
        schema = RandomSchema(random)
    }

    package mutating func run() throws {
        do {
            for _ in 0..<(2 + random.below(2)) { try addDevice() }
            for _ in 0..<(20 + random.below(80)) { try step() }
            try heal()
            try check()
        } catch let failure as Failure {
            throw failure
        } catch {
            throw Failure(description: "seed \(seed): \(error)")
        }
    }

    private mutating func addDevice() throws {
        let skew = [0, 0, 0, -365 * Self.day, 365 * Self.day, 3_600_000][random.below(6)]
        let clock = SimulatedClock(time, skew: skew)
        clocks.append(clock)
        devices.append(try SimulatedDatabase(
            devices.count, schema, version: random.below(4) == 0 ? 2 : 1, SimulatedFolder(cloud), random, clock,
            fault: fault))
        history.append("device \(devices.count - 1) version \(devices[devices.count - 1].version) skew \(skew)")
    }

    // MARK: Steps

    private mutating func step() throws {
        time.milliseconds += Int64(random.below(random.below(10) == 0 ? 3_600_000 : 50))
        let index = random.below(devices.count), device = devices[index]
        switch random.below(100) {
        case 0..<35: try write(index)
        case 35..<50: try publish(index)
        case 50..<65: if !device.isAway { transfer(device, count: 1 + random.below(8)) }
        case 65..<82: try importing(index)
        case 82..<86: try sync(index, "compact") { try Compactor($0).acknowledge(); try Compactor($0).compact() }
        case 86..<89: try restart(index, upgrade: random.below(2) == 0)
        case 89..<92:
            device.folder.crashAfter = random.below(4)
            device.folder.crashKind = random.below(3)
        case 92: device.folder.isFull.toggle()
        case 93..<95: clocks[index].skew += Int64(random.below(7_200_000)) - 3_600_000
        case 95..<97: device.isAway.toggle()
        case 97: if devices.count < 5 { try addDevice() }
        case 98:
            // The others go on for months; a device that is away returns later.
            time.milliseconds += Self.day * Int64(random.below(120))
            history.append("months pass")
        default: for name in device.folder.placeholders.sorted() { device.folder.placeholders.remove(name) }
        }
    }

    private mutating func write(_ index: Int) throws {
        guard let transaction = try devices[index].write() else { return }
        model.transactions.append(transaction)
        history.append("device \(index) writes \(transaction.stamp.time): \(transaction.writes)")
    }

    private func transfer(_ device: SimulatedDatabase, count: Int) {
        for _ in 0..<count {
            let uploads = device.folder.uploads, downloads = device.folder.downloads
            let choice = random.below(uploads.count + downloads.count + 1)
            if choice < uploads.count {
                device.folder.upload(uploads[choice])
            } else if choice < uploads.count + downloads.count {
                device.folder.download(downloads[choice - uploads.count], asPlaceholder: random.below(6) == 0)
            }
        }
    }

    private mutating func publish(_ index: Int) throws {
        try sync(index, "publish") { try Publisher($0).publish() }
    }

    private mutating func importing(_ index: Int) throws {
        try sync(index, "import") { try Importer($0).run() }
    }

    /// Runs a part of the sync on a device; a crash or a full disk ends it anywhere.
    private mutating func sync(_ index: Int, _ name: String, _ body: (LogContext) throws -> Void) throws {
        let device = devices[index], old = try device.queue.read { try Meta.deviceID($0) }
        var stamps: [Stamp] = []
        do {
            stamps = try device.sync(body)
            history.append("device \(index): \(name)")
        } catch is SimulatedCrash {
            history.append("device \(index): \(name), and crashes")
            stamps = try device.sync { _ in }
            try device.restart(version: device.version)
        } catch let error as UbiquityError where error.code == .noSpace {
            history.append("device \(index): \(name), and its disk is full")
        }
        let new = try device.queue.read { try Meta.deviceID($0) }
        if let old, let new, old != new {
            if stamps.isEmpty {
                stamps = try device.queue.read { db in
                    try Int64.fetchAll(db, sql: "SELECT time FROM ubiquity_outbox ORDER BY id")
                        .map { Stamp(UInt64($0), new) }
                }
            }
            history.append("device \(index) is \(new.number) now, \(stamps.count) entries are sent again")
            let own = model.transactions.indices.filter { model.transactions[$0].stamp.device == old }
                .sorted { model.transactions[$0].stamp < model.transactions[$1].stamp }
            guard stamps.count <= own.count else { throw Failure(description: "seed \(seed): too many entries sent again") }
            for (position, stamp) in zip(own.suffix(stamps.count), stamps) { model.transactions[position].stamp = stamp }
        }
    }

    private mutating func restart(_ index: Int, upgrade: Bool) throws {
        let device = devices[index]
        try device.restart(version: upgrade ? 2 : device.version)
        history.append("device \(index) restarts with version \(device.version)")
    }

    // MARK: The end

    private mutating func heal() throws {
        for device in devices {
            device.isAway = false
            device.folder.isFull = false
            device.folder.crashAfter = nil
            try device.restart(version: 2)
        }
        for round in 0..<60 {
            var isQuiet = true
            for index in devices.indices {
                let device = devices[index]
                if round < 40 {
                    try sync(index, "publish") { try Publisher($0).publish() }
                }
                for name in device.folder.uploads {
                    device.folder.upload(name)
                    isQuiet = false
                }
                for name in device.folder.downloads {
                    device.folder.download(name, asPlaceholder: false)
                    isQuiet = false
                }
                device.folder.placeholders = []
                try importing(index)
                try sync(index, "compact") { context in
                    try Compactor(context).acknowledge()
                    if round == 3 || round == 8 { try Compactor(context).compact(always: round == 3) }
                }
            }
            if isQuiet, round > 12 { return }
        }
        throw Failure(description: "seed \(seed): the devices do not come to rest")
    }

    private func check() throws {
        let expected = model.picture(schema, 2)
        for device in devices {
            let picture = try device.picture()
            if picture != expected {
                throw Failure(description: "seed \(seed): device \(device.name) \(difference(picture, expected))")
            }
            let violations = try device.queue.read { try Row.fetchAll($0, sql: "PRAGMA foreign_key_check").count }
            if violations > 0 { throw Failure(description: "seed \(seed): device \(device.name) has broken references") }
            let outcome = try Importer(device.context).run()
            if !outcome.isComplete {
                throw Failure(description: "seed \(seed): device \(device.name) has not imported everything: \(outcome)")
            }
        }
    }

    private func difference(_ picture: TablePicture, _ expected: TablePicture) -> String {
        for (table, rows) in expected.sorted(by: { $0.key < $1.key }) {
            for (key, row) in rows where picture[table]?[key] != row {
                return "\(table) \(key): \(String(describing: picture[table]?[key])) instead of \(row)"
            }
            for (key, row) in picture[table] ?? [:] where rows[key] == nil {
                return "\(table) \(key): \(row), which must not exist"
            }
        }
        return "has other tables"
    }
}
