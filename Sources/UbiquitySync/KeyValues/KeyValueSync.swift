internal import Logging
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem
package import UbiquityWire

/// Synchronizes the key-values of one container: sends the sets of this device, and reads those of others.
///
/// One loop does one request after the other. It does not depend on the documents: a cloud or a device without
/// key-values leaves the documents alone. The replica has all state that must survive the process.
package final class KeyValueSync: Sendable {
    /// How long the loop waits without an announcement of the cloud.
    private static let pollInterval = Duration.seconds(60)
    /// How long it waits if the cloud has no key-values.
    private static let absentInterval = Duration.seconds(600)

    private struct State {
        var pace = KeyValuePace()
        var backoff = Backoff()
        /// Whether the cloud may have records that this device has not read.
        var mayHaveNews = true
        /// Rounds that ended, and the failure of the last one.
        var rounds = 0
        var failure: UbiquityError?
        /// Whether a program waits for a round.
        var isUrgent = false
    }

    package let replica: KeyValueReplica
    private let service: any KeyValueService
    private let connection: Connection
    private let environment: SyncEnvironment
    private let onNews: @Sendable ([KeyValueNews]) -> Void
    private let state = Lock(State())
    /// Fires when there is work.
    private let work = Broadcast()
    /// Fires when a round has ended.
    private let progress = Broadcast()

    /// - Parameter onNews: gets the keys that show another value. It must not wait.
    package init(
        replica: KeyValueReplica, service: any KeyValueService, connection: Connection, environment: SyncEnvironment,
        onNews: @escaping @Sendable ([KeyValueNews]) -> Void
    ) {
        self.replica = replica
        self.service = service
        self.connection = connection
        self.environment = environment
        self.onNews = onNews
    }

    /// The reason why the last round failed; nil if it did not.
    package var failure: UbiquityError? { state.withLock { $0.failure } }

    /// Sends pending sets soon. Call it after a set.
    package func changesWereMade() { work.fire() }

    /// Runs until the task is cancelled.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.listen() }
            group.addTask { await self.followConnection() }
            group.addTask { await self.loop() }
            await group.waitForAll()
        }
    }

    private func listen() async {
        for await _ in service.keyValueNews() { requestReading() }
    }

    /// Ends a wait when the connection changes: the cloud may be reachable again.
    private func followConnection() async {
        while !Task.isCancelled {
            let seen = connection.changed.generation
            await connection.changed.wait(since: seen, atMost: Self.pollInterval, environment.timekeeper)
            if !connection.isPaused { requestReading() }
        }
    }

    private func requestReading() {
        state.withLock { state in
            state.mayHaveNews = true
            state.backoff.reset()
        }
        work.fire()
    }

    private func loop() async {
        while !Task.isCancelled {
            // Read the generation first, so that no later change is missed.
            let seen = work.generation
            let wait = await round()
            guard wait > .zero else { continue }
            await work.wait(since: seen, atMost: wait, environment.timekeeper)
        }
    }

    /// - Returns: how long to wait before the next round if nothing happens.
    private func round() async -> Duration {
        guard !connection.isPaused else {
            end(Connection.pause)
            return Self.pollInterval
        }
        do {
            if state.withLock({ $0.mayHaveNews }) { try await read() }
            let wait = try await send()
            end(nil)
            return wait
        } catch {
            guard !Task.isCancelled else { return Self.pollInterval }
            let error = UbiquityError.from(error)
            let isAbsent = error.code == .notFound || error.code == .notSupported
            environment.logger.debug("cannot exchange key-values", metadata: ["reason": "\(error)"])
            end(error)
            return isAbsent
                ? Self.absentInterval : state.withLock { $0.backoff.next(environment.random) }
        }
    }

    private func end(_ failure: UbiquityError?) {
        state.withLock { state in
            state.rounds += 1
            state.failure = failure
            if failure == nil { state.backoff.reset() }
        }
        progress.fire()
    }

    private func read() async throws {
        state.withLock { $0.mayHaveNews = false }
        do {
            while true {
                let point = try await environment.pool.run { [replica] in try replica.point() }
                let page = try await service.keyValues(after: point)
                let (news, hasMore) = try await environment.pool.run { [replica] in try replica.apply(page) }
                if !news.isEmpty { onNews(news) }
                guard hasMore else { return }
            }
        } catch {
            state.withLock { $0.mayHaveNews = true }
            throw error
        }
    }

    /// Sends pending sets if it is time.
    /// - Returns: how long to wait before the next round.
    private func send() async throws -> Duration {
        while true {
            let found = try await environment.pool.run { [replica] in try replica.nextPush() }
            guard let push = found else { return Self.pollInterval }
            let now = environment.timekeeper.uptime()
            let wait = state.withLock { $0.isUrgent ? $0.pace.waitAtMost(at: now) : $0.pace.wait(at: now) }
            guard wait == .zero else { return wait }
            state.withLock { $0.pace.record(at: now) }
            let results = try await service.push(push)
            let news = try await environment.pool.run { [replica] in try replica.apply(results, of: push) }
            if !news.isEmpty { onNews(news) }
        }
    }

    /// Waits until the account's values were once read completely.
    package func awaitFirstReading() async throws {
        while true {
            let generation = progress.generation
            if try await environment.pool.run({ [replica] in try replica.hasSynced() }) { return }
            try Task.checkCancellation()
            await progress.wait(since: generation, atMost: Self.pollInterval, environment.timekeeper)
        }
    }

    /// Sends the pending sets and reads those of others, now.
    /// - Throws: the reason if that fails now. The sets stay, and are sent later.
    package func synchronize() async throws {
        state.withLock { state in
            state.isUrgent = true
            state.mayHaveNews = true
        }
        defer { state.withLock { $0.isUrgent = false } }
        // A round that is under way may have begun before the call.
        var end = state.withLock { $0.rounds } + 2
        while true {
            if let absence = connection.absence, absence.code == .signedOut {
                throw UbiquityError(
                    .signedOut, "this device is signed out", remedy: "the sets are kept; sign in: ubiquity login")
            }
            let generation = progress.generation
            work.fire()
            let (rounds, failure) = state.withLock { ($0.rounds, $0.failure) }
            if rounds >= end {
                if let failure { throw failure }
                if try await environment.pool.run({ [replica] in try replica.pendingCount() }) == 0 { return }
                // More was set meanwhile, or the limit of requests makes it wait.
                end = rounds + 1
            }
            try Task.checkCancellation()
            await progress.wait(since: generation, atMost: .seconds(1), environment.timekeeper)
        }
    }
}
