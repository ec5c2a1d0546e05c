import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// An answer whose lines take their time. While there is none, an empty line now and then tells whether the client is
/// still there: writing to one that has gone fails, and that ends the work.
enum LineStream {
    /// Between two empty lines.
    private static let heartbeat = Duration.seconds(2)

    private enum Signal: Sendable {
        case line(ByteBuffer)
        case heartbeat
        case failed
    }

    /// - Parameter next: the next line; nil at the end. It is asked for one only when the one before has been written.
    static func response<Line: Encodable & Sendable>(
        _ next: @escaping @Sendable () async throws -> Line?
    ) -> Response {
        let body = ResponseBody { writer in
            let (signals, source) = AsyncStream.makeStream(of: Signal.self)
            let (demand, more) = AsyncStream.makeStream(of: Void.self)
            let worker = Task { await work(next, demand, source) }
            let beat = Task {
                while (try? await Sleepers.shared.sleep(for: heartbeat)) != nil { source.yield(.heartbeat) }
            }
            defer {
                worker.cancel()
                beat.cancel()
                more.finish()
            }
            more.yield()
            for await signal in signals {
                switch signal {
                case .line(let bytes):
                    try await writer.write(bytes)
                    more.yield()
                case .heartbeat: try await writer.write(ByteBuffer(string: "\n"))
                case .failed: throw CancellationError()
                }
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: [.contentType: "application/x-ndjson"], body: body)
    }

    private static func work<Line: Encodable & Sendable>(
        _ next: @Sendable () async throws -> Line?, _ demand: AsyncStream<Void>,
        _ source: AsyncStream<Signal>.Continuation
    ) async {
        do {
            for await _ in demand {
                guard let line = try await next() else { break }
                source.yield(.line(ByteBuffer(bytes: try ControlCodec.encode(line) + [UInt8(ascii: "\n")])))
            }
        } catch {
            // Only the end of the mount, or of the client, ends the work in the middle; the client sees it break off.
            source.yield(.failed)
        }
        source.finish()
    }
}
