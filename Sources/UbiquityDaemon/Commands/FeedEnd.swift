import UbiquityCore
import UbiquitySync
import UbiquitySystem
import UbiquityWire

/// The end of the cloud's feed, as the cloud reports it.
struct FeedEnd: MountCommand {
    /// Interval of asking for the end of the cloud's feed while it does not answer.
    private static let askAgain = Duration.seconds(1)

    let parts: MountParts

    /// - Returns: nil if the cloud does not answer in time. (A task group would wait for the answer even so, if the
    ///   call does not end when cancelled.)
    private func endOfFeed(within limit: Duration) async throws -> Revision? {
        let (answers, source) = AsyncThrowingStream<Revision, any Error>.makeStream()
        let asking = Task { [parts] in
            do { source.yield(try await parts.service.open().revision) } catch { source.finish(throwing: error) }
        }
        let clock = Task { [parts] in
            try? await parts.timekeeper.sleep(for: max(.zero, limit))
            source.finish()
        }
        defer {
            asking.cancel()
            clock.cancel()
        }
        for try await answer in answers { return answer }
        return nil
    }

    /// Asks the cloud for the end of its feed, and waits until the feed is read up to there.
    func reach(within limit: Duration) async throws -> Bool {
        let end = parts.timekeeper.uptime() + limit
        while parts.timekeeper.uptime() <= end {
            do {
                if engine.connection.isPaused { throw UbiquityError(.offline, "offline on request") }
                guard let target = try await endOfFeed(within: end - parts.timekeeper.uptime()) else { return false }
                return try await engine.wait(atMost: max(.zero, end - parts.timekeeper.uptime())) { [self] in
                    try await pool.run { try self.engine.summary().revision >= target }
                }
            } catch let error as UbiquityError where [.offline, .timedOut, .signedOut].contains(error.code) {
                let pause = min(Self.askAgain, max(.zero, end - parts.timekeeper.uptime()))
                guard pause > .zero else { return false }
                try await parts.timekeeper.sleep(for: pause)
            }
        }
        return false
    }
}
