import GRDB
import UbiquityCore
import UbiquitySystem

/// Runs the sync of a database on a thread of its own, one step at a time.
final class SyncWorker: Sendable {
    private struct State {
        var mustPublish = false
        var mustImport = false
        var isScheduled = false
        var isClosed = false
        var problem: String?
        var isIncomplete = false
        var waitsForNewerProgram = false
        var hasImported = false
        /// Uptime of the last upkeep.
        var upkeep: Duration?
    }

    /// Time between two acknowledgements, so that they do not make traffic of their own.
    private static let upkeepInterval = Duration.seconds(600)

    private let context: LogContext
    private let pool = BlockingPool(name: "ubiquity-db", threads: 1)
    private let state = Lock(State())
    private let report: @Sendable (ImportedChanges) -> Void
    private let changed: @Sendable () -> Void

    init(
        _ context: LogContext, report: @escaping @Sendable (ImportedChanges) -> Void,
        changed: @escaping @Sendable () -> Void
    ) {
        (self.context, self.report, self.changed) = (context, report, changed)
    }

    /// The result of the last steps.
    var picture: (isGathering: Bool, waitsForNewerProgram: Bool, problem: String?) {
        state.withLock { (!$0.hasImported || $0.isIncomplete, $0.waitsForNewerProgram, $0.problem) }
    }

    /// Asks for a step soon. Returns at once.
    func request(publish: Bool = false, import: Bool = false) {
        let mustStart = state.withLock { state in
            guard !state.isClosed else { return false }
            state.mustPublish = state.mustPublish || publish
            state.mustImport = state.mustImport || `import`
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if mustStart, !pool.start({ [self] in step() }) { state.withLock { $0.isScheduled = false } }
    }

    private func step() {
        let work = state.withLock { state in
            defer { (state.mustPublish, state.mustImport, state.isScheduled) = (false, false, false) }
            return (publish: state.mustPublish, import: state.mustImport)
        }
        do { try run(publish: work.publish, import: work.import) } catch {
            state.withLock { $0.problem = "\(error)" }
        }
        changed()
    }

    private func run(publish: Bool, import: Bool) throws {
        if publish { reportIfNeeded(try Publisher(context).publish()) }
        guard `import` else { return state.withLock { $0.problem = nil } }
        let outcome = try Importer(context).run { reportIfNeeded($0) }
        let now = SystemTimekeeper().uptime()
        let needsUpkeep = state.withLock { state in
            state.hasImported = true
            state.isIncomplete = outcome.isMissing
            state.waitsForNewerProgram = outcome.waitsForNewerProgram
            state.problem = outcome.damage.first
            let isDue = state.upkeep.map { now - $0 >= Self.upkeepInterval } ?? true
            guard outcome.isComplete, isDue else { return false }
            state.upkeep = now
            return true
        }
        guard needsUpkeep else { return }
        try Compactor(context).acknowledge()
        try Compactor(context).compact()
    }

    private func reportIfNeeded(_ changes: ImportedChanges) { if !changes.isEmpty { report(changes) } }

    /// Publishes and imports everything that is here, and returns afterwards.
    func runNow() async throws {
        try await pool.run { [self] in
            try run(publish: true, import: true)
            changed()
        }
    }

    /// Runs work between two steps.
    func perform<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T { try await pool.run(body) }

    /// Publishes waiting writes, records the state of the import, and ends.
    func close() async throws {
        state.withLock { $0.isClosed = true }
        try await pool.run { [context] in
            try Publisher(context).publish()
            try Compactor(context).acknowledge()
        }
    }
}
