import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Shutdown of a server, and its effect on clients.
@Suite struct EndingTests {
    private static let change = ItemChange(
        id: ItemID(high: 3, low: 4), kind: .file, baseRevision: .zero, changedAt: .zero, action: .delete)

    private static func request() -> CommitRequest {
        CommitRequest(
            id: RequestID(high: 1, low: 1), device: RunningServer.device, deviceName: "", changes: [change])
    }

    @Test(arguments: Way.allCases) func requestsInFlightAreAnswered(_ way: Way) async throws {
        let running = try await Harness.start(way)
        let client = try running.client()
        let (entered, entering) = AsyncStream.makeStream(of: Void.self)
        let (released, releasing) = AsyncStream.makeStream(of: Void.self)
        running.container.state.withLock { state in
            state.beforeCommit = {
                entering.finish()
                for await _ in released {}
            }
        }
        let answer = Task { try await client.commit(Self.request()) }
        for await _ in entered {}
        running.server.stop()
        if case .unixSocket(let path) = running.address {
            try await Harness.eventually("the socket is gone") { try !FileSystem.exists(path) }
        }
        let late = try running.client()
        try await Harness.eventually("new requests are refused") {
            do {
                _ = try await late.usage()
                return false
            } catch let error as UbiquityError {
                return error.code == .offline
            }
        }
        releasing.finish()
        #expect(try await answer.value.revision == Revision(1))
        try await running.task.value
        await client.shutdown()
        await late.shutdown()
    }

    @Test func slowRequestIsCancelledAtTheEnd() async throws {
        let running = try await Harness.start(.unixSocket, shutdownLimit: .milliseconds(50))
        let client = try running.client()
        let (entered, entering) = AsyncStream.makeStream(of: Void.self)
        running.container.state.withLock { state in
            state.beforeCommit = {
                entering.finish()
                try await Task.sleep(for: .seconds(3600))
            }
        }
        let answer = Task { try await client.commit(Self.request()) }
        for await _ in entered {}
        running.server.stop()
        let failure = await #expect(throws: UbiquityError.self) { _ = try await answer.value }
        #expect(failure?.code == .offline)
        try await running.task.value
        await client.shutdown()
    }

    @Test func cancellingTheTaskIsStopping() async throws {
        let running = try await Harness.start(.unixSocket)
        running.task.cancel()
        try await running.task.value
        guard case .unixSocket(let path) = running.address else { return }
        #expect(try !FileSystem.exists(path))
    }

    @Test func endsWhenNobodyUsesIt() async throws {
        let limit: Duration = .milliseconds(300)
        let (running, client, opened) = try await startWithStream(endsAfterIdle: limit)
        var news = opened.makeAsyncIterator()
        #expect(try await news.next() == .zero)
        // A stream keeps it alive for longer than the limit.
        let started = ContinuousClock.now
        try await Harness.eventually("the limit has passed") { started.duration(to: .now) > limit * 2 }
        _ = try await client.usage()
        #expect(!running.server.isEnding)
        await client.shutdown()
        try await running.task.value
        let late = try running.client()
        let failure = await #expect(throws: UbiquityError.self) { _ = try await late.usage() }
        #expect(failure?.code == .offline)
        await late.shutdown()
    }

    /// A server that ends when idle may end before the first request: then it is started again, as by mounts.
    private func startWithStream(
        endsAfterIdle limit: Duration
    ) async throws -> (RunningServer, CloudClient, AsyncThrowingStream<Revision, any Error>) {
        for _ in 0..<50 {
            let running = try await Harness.start(.unixSocket, endsAfterIdle: limit)
            let client = try running.client()
            do {
                return (running, client, try await client.news())
            } catch let error as UbiquityError where error.code == .offline {
                await client.shutdown()
                try await running.task.value
            }
        }
        throw HarnessFailure(reason: "no server lived long enough")
    }

    @Test func serversReuseOneSocketInTurn() async throws {
        let folder = try TestFolder()
        var client: CloudClient?
        for _ in 0..<5 {
            let running = try await Harness.start(.longUnixSocket, folder: folder)
            let known = try client ?? running.client()
            client = known
            _ = try await known.usage()
            running.server.stop()
            try await running.task.value
            await #expect(throws: UbiquityError.self) { _ = try await known.usage() }
        }
        await client?.shutdown()
    }

    /// A client that connects at the moment of the end is dropped, without a crash or a wait.
    @Test(arguments: [Way.tcp, .unixSocket], [false, true])
    func clientsDuringShutdownAreDropped(_ way: Way, isCancelled: Bool) async throws {
        for _ in 0..<20 {
            let running = try await Harness.start(way)
            let answers = Lock(0)
            let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
            let clients = (0..<4).map { _ in
                Task {
                    // Until nothing listens any more.
                    while (try? await Plain.exchange(request, with: running)) != nil { answers.withLock { $0 += 1 } }
                }
            }
            try await Harness.eventually("they have begun") { answers.withLock { $0 } > 20 }
            isCancelled ? running.task.cancel() : running.server.stop()
            try await running.task.value
            for client in clients { await client.value }
        }
    }

    @Test func idlenessIsDecidedOnce() throws {
        let activity = Activity()
        activity.begin()
        #expect(activity.stopIfIdle(for: .zero) == .zero)
        #expect(!activity.isStopping)
        activity.end()
        let told = Lock(0)
        _ = activity.onStop { told.withLock { $0 += 1 } }
        let forgotten = activity.onStop { told.withLock { $0 += 100 } }
        activity.forget(forgotten)
        #expect(activity.stopIfIdle(for: .seconds(60)) != nil)
        #expect(activity.stopIfIdle(for: .zero) == nil)
        #expect(activity.isStopping)
        activity.stop()
        _ = activity.onStop { told.withLock { $0 += 10 } }
        #expect(told.withLock { $0 } == 11)
    }
}
