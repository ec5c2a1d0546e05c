import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// The stream of revisions, as server-sent events.
struct EventRoutes: Sendable {
    let access: CloudAccess
    let activity: Activity
    let counters: Counters
    let departures: Departures

    func add(to router: Router<CloudContext>) { router.get("v1/containers/:container/events", use: events) }

    private enum Event: Sendable {
        case revision(Revision)
        /// The feed of key-values has this revision.
        case keyValues(Revision)
        case heartbeat
        /// The last event of a stream whose token was revoked.
        case revoked

        var bytes: ByteBuffer {
            switch self {
            case .revision(let revision):
                Self.event("revision", "{\"revision\":\(revision.number)}")
            case .keyValues(let revision):
                Self.event("keyvalues", "{\"revision\":\(revision.number)}")
            case .heartbeat: ByteBuffer(string: ": still here\n\n")
            case .revoked: Self.event("failure", Self.revocation)
            }
        }

        /// With a digest of its data, because each line may be damaged in transit. Other clients ignore that line.
        private static func event(_ name: String, _ data: String) -> ByteBuffer {
            ByteBuffer(string: "digest: \(MessageDigest.ofEvent(data))\nevent: \(name)\ndata: \(data)\n\n")
        }

        /// A failure as JSON. Encoding one never fails, because it has no unknown fields.
        private static let revocation = String(
            decoding: (try? WireCodec.encode(WireFailure(error: TokenSessions.error), as: .json)) ?? [], as: UTF8.self)
    }

    @Sendable private func events(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (holder, service) = try await access.signedIn(request, context)
        // A test's substitute has no key-values.
        let keyValues = access.host.cloud == nil
            ? nil : try await access.keyValues(request, context).service.keyValueNews()
        return try await stream(of: service, keyValues: keyValues, for: holder, context)
    }

    /// The revisions of a container, until the client goes or its token is revoked.
    func stream(
        of service: any CloudService, keyValues: AsyncStream<Revision>? = nil, for holder: TokenHolder,
        _ context: CloudContext
    ) async throws -> Response {
        let news = try await service.news()
        let body = ResponseBody { writer in
            counters.addEventStreams(1)
            defer { counters.addEventStreams(-1) }
            let (events, source) = AsyncStream.makeStream(
                of: Event.self, bufferingPolicy: .bufferingNewest(ServerLimits.pendingEvents))
            let token = activity.onStop { source.finish() }
            defer { activity.forget(token) }
            let stream = access.sessions.beginStream(of: holder.token) {
                source.yield(.revoked)
                source.finish()
            }
            defer { access.sessions.endStream(stream, of: holder.token) }
            var feeds = [Self.pass(news, to: source), Self.beat(to: source)]
            if let keyValues { feeds.append(Self.pass(keyValues, to: source)) }
            defer { for feed in feeds { feed.cancel() } }
            let out = EventWriter(writer)
            try await departures.whilePresent(context.channel) {
                for await event in events { try await out.write(event.bytes) }
            }
            try await out.finish()
        }
        var headers: HTTPFields = [.contentType: "text/event-stream", .cacheControl: "no-store"]
        headers.set(MessageDigest.supportField, MessageDigest.support)
        return Response(status: .ok, headers: headers, body: body)
    }

    /// The answer's writer for a `@Sendable` closure; used by one task at a time, hence unchecked.
    private final class EventWriter: @unchecked Sendable {
        private var writer: any ResponseBodyWriter

        init(_ writer: any ResponseBodyWriter) { self.writer = writer }

        func write(_ bytes: ByteBuffer) async throws { try await writer.write(bytes) }
        func finish() async throws { try await writer.finish(nil) }
    }

    /// The stream ends when the container's news end: the client connects again.
    private static func pass(
        _ news: AsyncThrowingStream<Revision, any Error>, to source: AsyncStream<Event>.Continuation
    ) -> Task<Void, Never> {
        Task {
            defer { source.finish() }
            do {
                for try await revision in news { source.yield(.revision(revision)) }
            } catch {
                // After the end of the stream the client can only connect again, so the error is not needed.
            }
        }
    }

    private static func pass(
        _ keyValues: AsyncStream<Revision>, to source: AsyncStream<Event>.Continuation
    ) -> Task<Void, Never> {
        Task { for await revision in keyValues { source.yield(.keyValues(revision)) } }
    }

    private static func beat(to source: AsyncStream<Event>.Continuation) -> Task<Void, Never> {
        Task {
            while (try? await Sleepers.shared.sleep(for: ServerLimits.heartbeat)) != nil { source.yield(.heartbeat) }
        }
    }
}
