import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// An answer whose lines take time. An empty line every few seconds checks that the client is still connected: writing
/// to one that has gone fails, which ends the work.
enum LineStream {
    /// Between two empty lines.
    private static let heartbeat = Duration.seconds(2)

    private enum Signal: Sendable {
        case line(ByteBuffer)
        case heartbeat
        case failed
    }

    /// - Parameters:
    ///   - next: returns the next line; nil at the end. Called only after the previous line was written.
    ///   - lost: called with a line that could not be written.
    static func response<Line: Encodable & Sendable>(
        _ next: @escaping @Sendable () async throws -> Line?, lost: @escaping @Sendable (Line) -> Void = { _ in }
    ) -> Response {
        let unwritten = Lock<Line?>(nil)
        let noted: @Sendable () async throws -> Line? = {
            let line = try await next()
            unwritten.withLock { $0 = line }
            // The client may have gone meanwhile, so that nothing asks for the line any more.
            if Task.isCancelled, let line = take(unwritten) { lost(line) }
            return line
        }
        let body = ResponseBody { writer in
            let (signals, source) = AsyncStream.makeStream(of: Signal.self)
            let (demand, more) = AsyncStream.makeStream(of: Void.self)
            let worker = Task { await work(noted, demand, source) }
            let beat = Task {
                while (try? await Sleepers.shared.sleep(for: heartbeat)) != nil { source.yield(.heartbeat) }
            }
            defer {
                worker.cancel()
                beat.cancel()
                more.finish()
                if let line = take(unwritten) { lost(line) }
            }
            more.yield()
            for await signal in signals {
                switch signal {
                case .line(let bytes):
                    try await writer.write(bytes)
                    unwritten.withLock { $0 = nil }
                    more.yield()
                case .heartbeat: try await writer.write(ByteBuffer(string: "\n"))
                case .failed: throw CancellationError()
                }
            }
            try await writer.finish(nil)
        }
        return Response(status: .ok, headers: [.contentType: "application/x-ndjson"], body: body)
    }

    /// Takes the stored line, once.
    private static func take<Line: Sendable>(_ lock: Lock<Line?>) -> Line? {
        lock.withLock { line in
            defer { line = nil }
            return line
        }
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
            // Only the end of the mount or of the client interrupts the work; the client sees the answer break off.
            source.yield(.failed)
        }
        source.finish()
    }
}
