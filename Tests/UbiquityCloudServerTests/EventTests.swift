import NIOCore
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// The stream of news.
@Suite struct EventTests {
    private func request(_ id: UInt64) -> CommitRequest {
        let change = ItemChange(
            id: ItemID(high: 3, low: 4), kind: .file, baseRevision: .zero, changedAt: .zero, action: .delete)
        return CommitRequest(
            id: RequestID(high: id, low: id), device: RunningServer.device, deviceName: "", changes: [change])
    }

    @Test(arguments: Way.allCases) func revisionAtOnceAndWithEachCommit(_ way: Way) async throws {
        try await Harness.withServer(way) { running, client in
            var news = try await client.news().makeAsyncIterator()
            #expect(try await news.next() == .zero)
            for number in 1...20 {
                _ = try await client.commit(request(UInt64(number)))
                #expect(try await news.next() == Revision(Int64(number)))
            }
        }
    }

    @Test func bytesOnTheWire() async throws {
        try await Harness.withServer(.unixSocket) { running, _ in
            let text = try await Plain.connected(to: running) { inbound, outbound in
                try await outbound.write(.init(string: "GET /v1/containers/default/events HTTP/1.1\r\nhost: a\r\n\r\n"))
                var text = ""
                for try await part in inbound {
                    text += String(buffer: part)
                    if text.contains("}\n\n") { break }
                }
                return text
            }
            #expect(text.lowercased().contains("content-type: text/event-stream"))
            #expect(text.contains("event: revision\ndata: {\"revision\":0}\n\n"))
        }
    }

    @Test func serverReleasesTheStreamWithTheClient() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let container = running.container
            let task = Task {
                for try await _ in try await client.news() {}
            }
            try await Harness.eventually("the stream is open") { container.state.withLock { $0.listeners.count == 1 } }
            task.cancel()
            try await Harness.eventually("the stream is closed") { container.state.withLock { $0.listeners.isEmpty } }
            _ = await task.result
        }
    }

    @Test func serverShutdownEndsTheStream() async throws {
        let running = try await Harness.start(.unixSocket)
        let client = try running.client()
        var news = try await client.news().makeAsyncIterator()
        #expect(try await news.next() == .zero)
        running.server.stop()
        let failure = await #expect(throws: UbiquityError.self) { _ = try await news.next() }
        #expect(failure?.code == .offline)
        try await running.task.value
        await client.shutdown()
    }

    @Test func endOfTheNewsEndsTheStream() async throws {
        try await Harness.withServer(.tcp) { running, client in
            var news = try await client.news().makeAsyncIterator()
            _ = try await news.next()
            let listeners = running.container.state.withLock { Array($0.listeners.values) }
            for listener in listeners { listener.finish(throwing: UbiquityError(.io, "the database is gone")) }
            let failure = await #expect(throws: UbiquityError.self) { _ = try await news.next() }
            #expect(failure?.code == .offline)
        }
    }

    @Test func twoHundredStreams() async throws {
        try await Harness.withServer(.unixSocket) { running, client in
            let clients = try (0..<20).map { _ in try running.client() }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for client in clients {
                    for _ in 0..<10 {
                        group.addTask {
                            for try await revision in try await client.news() where revision == Revision(1) { return }
                        }
                    }
                }
                let container = running.container
                try await Harness.eventually("all listen") { container.state.withLock { $0.listeners.count == 200 } }
                _ = try await client.commit(request(1))
                try await group.waitForAll()
            }
            for client in clients { await client.shutdown() }
        }
    }
}
