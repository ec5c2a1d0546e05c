internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

/// Sends commits to the cloud, numbered in their order, and measures the speed of the connection.
///
/// It holds the upload pace. The uploader, the decisions about versions and the trash send their commits through it. It
/// knows the context only. The caller applies the answer to the index.
final class CommitSender: Sendable {
    private let context: SyncContext
    private let pace = Lock(UploadPace())

    init(_ context: SyncContext) { self.context = context }

    /// Bytes of chunks in one request, sized for the current speed of the connection.
    var bytesPerRequest: Int { pace.withLock { $0.bytes } }

    /// Requests with chunks in flight, per file.
    var lanes: Int { pace.withLock { $0.lanes } }

    /// Records that a proxy refused a request of `size` bytes as too large.
    func recordRefusal(of size: Int) { pace.withLock { $0.refused(size) } }

    /// Sends a commit. If the answer is lost, sends the same request again: a repeated request has no second effect.
    /// - Throws: `OutdatedCommit` if the cloud has taken a later commit, `CloudIsFull`, and errors of the cloud.
    func send(_ request: CommitRequest) async throws -> CommitResponse {
        try context.connection.requireWritable()
        var request = request
        let drawn = request.packages.isEmpty ? [] : Self.versions(of: request)
        (request.number, request.known) = try await context.pool.run { [index = context.index] in
            // A package's decision draws additional versions, which no row records.
            if !drawn.isEmpty { try index.write(.remote) { try $0.noteSent(drawn) } }
            return (try index.nextCommitNumber(), try index.read { try $0.feedPosition() }.point)
        }
        do {
            return try await sendOnce(&request)
        } catch let error as UbiquityError where error.code == .offline || error.code == .timedOut {
            try context.connection.requireAllowed()
            try await context.timekeeper.sleep(for: Backoff.shortest)
            return try await sendOnce(&request)
        }
    }

    private static func versions(of request: CommitRequest) -> [VersionID] {
        request.changes.compactMap { change in
            if case .put(let fields) = change.action { fields.content?.version } else { nil }
        }
    }

    private func sendOnce(_ request: inout CommitRequest) async throws -> CommitResponse {
        request.sentAt = context.timekeeper.now()
        let sending = request, size = request.chunks.reduce(0) { $0 + $1.bytes.count }
        let response: CommitResponse
        do { response = try await paced(size) { try await self.context.service.commit(sending) } } catch let error
            as UbiquityError where error.code == .noSpace
        {
            throw CloudIsFull(reason: error)
        }
        context.logger.debug(
            "committed", metadata: [
                "changes": "\(sending.changes.count)", "chunk bytes": "\(size)", "revision": "\(response.revision)",
            ])
        context.feed.recordDeletions(response)
        return response
    }

    /// Handles that the cloud has taken a later commit of this device: two commits were in flight, or the index is an
    /// old copy.
    func raiseNumbers(after outdated: OutdatedCommit) async throws {
        context.logger.info("a later commit of this device arrived first", metadata: ["last": "\(outdated.last)"])
        try await context.pool.run { [index = context.index] in
            try index.raiseCommitNumbers(above: outdated.last)
        }
    }

    /// Sends `size` bytes by `body`, and measures the speed of the connection.
    func paced<R>(_ size: Int, _ body: () async throws -> R) async throws -> R {
        let start = context.timekeeper.uptime()
        do {
            let result = try await body()
            let duration = context.timekeeper.uptime() - start
            if size > 0 { pace.withLock { $0.took(duration, for: size) } }
            return result
        } catch let error as UbiquityError where size > 0 && [.offline, .timedOut].contains(error.code) {
            let now = context.timekeeper.uptime()
            pace.withLock { $0.failed(begunAt: start, now: now) }
            throw error
        }
    }
}

/// The account at the cloud has no space for a commit. This is temporary, and differs from a full local disk.
struct CloudIsFull: Error {
    var reason: UbiquityError
}
