import AsyncHTTPClient
import FoundationEssentials
import NIOCore
import NIOHTTP1
package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// The key-value stores of one container of a cloud over HTTP. `CloudClient` makes it.
package struct KeyValueClient: KeyValueService {
    let transport: Transport
    let base: String
    let announcements: KeyValueAnnouncements

    package func keyValues(after point: KeyValuePoint) async throws -> KeyValuePage {
        let incarnation = point.incarnation.map { "&incarnation=\($0)" } ?? ""
        let bytes = try await send(.GET, "/kv?after=\(point.revision.number)" + incarnation, nil)
        return try Self.decode(KeyValuePageMessage.self, bytes).page()
    }

    package func push(_ push: KeyValuePush) async throws -> [KeyValueResult] {
        let body = ByteBuffer(bytes: try JSONEncoder().encode(KeyValuePushMessage(push)))
        let content = Transport.Content(
            mediaType: WireFormat.json.mediaType, length: body.readableBytes,
            digest: MessageDigest.field(of: Array(body.readableBytesView))
        ) {
            .bytes(body)
        }
        let results = try Self.decode(KeyValueAnswerMessage.self, await send(.POST, "/kv", content)).found()
        guard results.count == push.changes.count else {
            throw UbiquityError(.invalid, "the cloud answered \(results.count) of \(push.changes.count) sets")
        }
        return results
    }

    package func keyValueNews() -> AsyncStream<Revision> { announcements.stream() }

    private func send(_ method: HTTPMethod, _ path: String, _ content: Transport.Content?) async throws -> [UInt8] {
        try await transport.repeating(within: ClientLimits.commit) {
            let response = try await transport.send(
                method, base + path, content, accept: WireFormat.json.mediaType, load: .commit,
                within: ClientLimits.commit)
            return try await transport.body(of: response, limit: KeyValueLimits.messageLength)
        }
    }

    private static func decode<Message: Decodable>(
        _ type: Message.Type, _ bytes: [UInt8]
    ) throws(UbiquityError) -> Message {
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "the cloud's answer cannot be read: \(error)")
        }
    }
}

/// Passes the announced revisions of key-values to the listeners in this process.
final class KeyValueAnnouncements: Sendable {
    private struct State {
        var next = 0
        var listeners: [Int: AsyncStream<Revision>.Continuation] = [:]
    }

    private let state = Lock(State())

    func stream() -> AsyncStream<Revision> {
        let (stream, source) = AsyncStream.makeStream(of: Revision.self, bufferingPolicy: .bufferingNewest(1))
        let number = state.withLock { state in
            state.next += 1
            state.listeners[state.next] = source
            return state.next
        }
        source.onTermination = { [weak self] _ in self?.forget(number) }
        return stream
    }

    private func forget(_ number: Int) { state.withLock { _ = $0.listeners.removeValue(forKey: number) } }

    func tell(_ revision: Revision) {
        for source in state.withLock({ Array($0.listeners.values) }) { source.yield(revision) }
    }
}
