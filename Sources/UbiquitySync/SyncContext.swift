package import Logging
package import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem
package import UbiquityWire

/// The parts that all rooms of the sync engine use: index, contents, cloud, time, randomness, and the state
/// that several rooms share.
///
/// The engine makes one context and passes it to every room. A room holds the context and its own state. Rooms meet
/// through the index and through the context.
package final class SyncContext: Sendable {
    package let index: ItemIndex
    package let store: ContentStore
    package let service: any CloudService
    package let configuration: SyncConfiguration
    package let environment: SyncEnvironment

    package let connection: Connection
    let agenda: Agenda
    let transfers = Transfers()
    /// How far the feed is read.
    let feed = FeedStatus()

    private let users = Lock<(any OpenItems)?>(nil)

    package init(
        index: ItemIndex, store: ContentStore, service: any CloudService, configuration: SyncConfiguration,
        environment: SyncEnvironment
    ) {
        self.index = index
        self.store = store
        self.service = CheckedCloud(cloud: service)
        self.configuration = configuration
        self.environment = environment
        let timekeeper = environment.timekeeper
        connection = Connection(timekeeper: timekeeper, random: environment.random)
        agenda = Agenda(
            timekeeper: timekeeper, random: environment.random, logger: environment.logger,
            pausedItems: configuration.pausedItems)
    }

    package var timekeeper: any Timekeeper { environment.timekeeper }
    package var random: any RandomSource { environment.random }
    package var pool: BlockingPool { environment.pool }
    package var executor: (any TaskExecutor)? { environment.executor }
    package var logger: Logger { environment.logger }
    package var scanner: ContentScanner { ContentScanner(clock: timekeeper) }
    var problems: Problems { agenda.problems }
    var throttle: Throttle { agenda.throttle }
    var progress: Broadcast { agenda.progress }

    // MARK: The users of items

    /// The object that knows the open files. Nil until it is bound, and then no file counts as open.
    package var openItems: (any OpenItems)? { users.withLock { $0 } }

    /// Binds the object that knows the open files. Call it once, before the engine runs.
    package func bind(_ openItems: any OpenItems) { users.withLock { $0 = openItems } }

    // MARK: Helpers

    /// Retires the backing files that a transaction dropped.
    package func discard(_ contents: [ContentID]) {
        if !contents.isEmpty { store.retire(contents) }
    }

    /// Removes the backing files of retired contents once the index that retired them is on the disk. Then the space of
    /// evicted contents is free.
    package func removeRetired() throws {
        // Making the index durable also makes all replacements durable.
        let replacements = index.replacements
        let removed = try store.removeRetired { try index.makeDurable() }
        if removed == 0, !replacements.isEmpty { try index.makeDurable() }
        try index.forgetReplacements(replacements)
    }

    package func settler(_ transaction: IndexTransaction) -> Settler {
        Settler(
            transaction, owner: configuration.owner, now: timekeeper.now(),
            trustsPrivileges: configuration.trustsPrivileges, checksRecords: configuration.checksRecords,
            stepLimit: configuration.settlingSteps)
    }

    /// Repeats a request that a program waits for, within the limit of the network.
    package func patiently<R>(while isWanted: () -> Bool = { true }, _ body: () async throws -> R) async throws -> R {
        try await PatientRequest(connection: connection, timekeeper: timekeeper, random: random)
            .run(while: isWanted, body)
    }

    /// The chunks of a version, requested from the cloud if the record lacks them.
    package func manifest(of content: RemoteContent) async throws -> Manifest {
        if let error = content.whyNotHere { throw error }
        if content.size == 0 { return [] }
        if let manifest = content.manifest { return manifest }
        try connection.requireAllowed()
        return try await patiently { try await service.manifest(of: content.version) }
    }

    /// Asks the cloud for the usage of the account.
    package func refreshUsage() async {
        do {
            let usage = try await service.usage()
            connection.noteUsage(used: usage.usedBytes, quota: usage.quotaBytes)
        } catch {
            // The feed loop determines whether the cloud is reachable. The last figures remain.
            logger.debug("cannot query the usage of the account", metadata: ["reason": "\(error)"])
        }
    }

    /// Changes this device's flags of items, many in one commit. Skips removed items.
    package func changeFlags(of keys: [ItemKey], _ change: (inout ItemRow) -> Void) throws {
        for start in stride(from: 0, to: keys.count, by: SyncLimits.rowsPerWrite) {
            try index.write(.remote) { transaction in
                for key in keys[start..<min(start + SyncLimits.rowsPerWrite, keys.count)] {
                    guard let row = try transaction.row(key: key), !row.isDeleted else { continue }
                    var next = row
                    change(&next)
                    guard next != row else { continue }
                    try transaction.update(next, before: row)
                    transaction.note(.attributes, before: row, after: next)
                }
            }
        }
    }

    /// Waits until `condition` holds.
    /// - Returns: false when `duration` ends first.
    package func wait(
        atMost duration: Duration, until condition: @Sendable () async throws -> Bool
    ) async throws -> Bool {
        let end = timekeeper.uptime() + duration
        while true {
            let generation = progress.generation
            if try await condition() { return true }
            let left = end - timekeeper.uptime()
            guard left > .zero else { return false }
            try Task.checkCancellation()
            await progress.wait(since: generation, atMost: min(left, .seconds(1)), timekeeper)
        }
    }
}

/// A room of the engine: a type with its own state that holds the context. It gets short names for what is in there.
package protocol SyncRoom: Sendable {
    var context: SyncContext { get }
}

extension SyncRoom {
    package var index: ItemIndex { context.index }
    package var store: ContentStore { context.store }
    package var service: any CloudService { context.service }
    package var configuration: SyncConfiguration { context.configuration }
    package var timekeeper: any Timekeeper { context.timekeeper }
    package var random: any RandomSource { context.random }
    package var pool: BlockingPool { context.pool }
    package var executor: (any TaskExecutor)? { context.executor }
    package var logger: Logger { context.logger }
    package var scanner: ContentScanner { context.scanner }
    package var connection: Connection { context.connection }
    var agenda: Agenda { context.agenda }
    var problems: Problems { context.problems }
    var transfers: Transfers { context.transfers }
    var throttle: Throttle { context.throttle }
    var feed: FeedStatus { context.feed }
    var progress: Broadcast { context.progress }
    package var openItems: (any OpenItems)? { context.openItems }

    package func discard(_ contents: [ContentID]) { context.discard(contents) }
    package func removeRetired() throws { try context.removeRetired() }
    package func settler(_ transaction: IndexTransaction) -> Settler { context.settler(transaction) }
    package func manifest(of content: RemoteContent) async throws -> Manifest {
        try await context.manifest(of: content)
    }
    package func patiently<R>(while isWanted: () -> Bool = { true }, _ body: () async throws -> R) async throws -> R {
        try await context.patiently(while: isWanted, body)
    }
    package func refreshUsage() async { await context.refreshUsage() }
    package func wait(
        atMost duration: Duration, until condition: @Sendable () async throws -> Bool
    ) async throws -> Bool {
        try await context.wait(atMost: duration, until: condition)
    }
}

/// Time, randomness, threads and the log. A simulator passes its own.
package struct SyncEnvironment: Sendable {
    package let timekeeper: any Timekeeper
    package let random: any RandomSource
    package let pool: BlockingPool
    /// Runs the tasks that outlive their caller. Nil means Swift's own threads.
    package let executor: (any TaskExecutor)?
    package let logger: Logger

    package init(
        timekeeper: any Timekeeper, random: any RandomSource, pool: BlockingPool, logger: Logger,
        executor: (any TaskExecutor)? = nil
    ) {
        self.timekeeper = timekeeper
        self.random = random
        self.pool = pool
        self.executor = executor
        self.logger = logger
    }
}
