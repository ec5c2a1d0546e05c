import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquitySystem

// The routes of coordination clients.
extension ControlRoutes {
    func addCoordinationRoutes(to router: Router<BasicRequestContext>) {
        router.post(RouterPath(ControlRoute.clients)) { request, _ in try await client(request) }
        add(ControlRoute.leave, to: router, answering: controller.leave)
        add(ControlRoute.presenters, to: router, answering: controller.addPresenter)
        add(ControlRoute.removePresenter, to: router, answering: controller.removePresenter)
        add(ControlRoute.answer, to: router, answering: controller.answer)
        router.post(RouterPath(ControlRoute.claims)) { request, _ in try await claim(request) }
        add(ControlRoute.endClaim, to: router, answering: controller.endClaim)
        router.get(RouterPath(ControlRoute.coordination)) { _, _ in
            try await answer { try await controller.pool.run { try controller.coordinationStatus() } }
        }
    }

    /// Registers a client for as long as it reads its messages.
    private func client(_ request: Request) async throws -> Response {
        do {
            let wanted = try await message(ClientRegistration.self, of: request)
            let (client, messages) = try controller.addClient(wanted)
            let body = ResponseBody { writer in
                defer { controller.remove(client) }
                var first = ClientNews(.registered)
                first.client = client.number
                try await writer.write(Self.bytes(of: first))
                for await message in messages {
                    if controller.coordination.takeLoss(of: client) {
                        try await writer.write(Self.bytes(of: ClientNews(.overflow)))
                    }
                    guard let news = try await controller.news(message) else {
                        try await writer.write(ByteBuffer(string: ": still here\n\n"))
                        continue
                    }
                    try await writer.write(Self.bytes(of: news))
                }
                try await writer.finish(nil)
            }
            return Response(
                status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
        } catch {
            return try await answer { () throws -> Acknowledgement in throw error }
        }
    }

    /// Answers one line when the claim is granted or refused. A client that stops waiting has no claim.
    private func claim(_ request: Request) async throws -> Response {
        do {
            let wanted = try await message(ClaimMessage.self, of: request)
            let isAnswered = Lock(false)
            return LineStream.response {
                let isFirst = isAnswered.withLock { answered in
                    defer { answered = true }
                    return !answered
                }
                return isFirst ? await controller.claim(wanted) : nil
            } lost: { [controller] report in
                guard let claim = report.claim else { return }
                _ = controller.coordination.end(ClaimID(claim), of: ClientID(wanted.client))
            }
        } catch {
            return try await answer { () throws -> Acknowledgement in throw error }
        }
    }

    private static func bytes(of news: ClientNews) throws(UbiquityError) -> ByteBuffer {
        ByteBuffer(bytes: Array("data: ".utf8) + (try ControlCodec.encode(news)) + Array("\n\n".utf8))
    }
}

extension MountController {
    /// The message in wire form; nil for a heartbeat.
    func news(_ message: ClientMessage) async throws -> ClientNews? {
        var news: ClientNews
        switch message {
        case .heartbeat: return nil
        case .ask(let question):
            news = ClientNews(.ask)
            news.question = question.id.number
            news.presenter = question.presenter.number
            news.steps = question.steps.map(\.rawValue)
            if question.isPlainCall { news.isPlainCall = true }
            news.seconds = max(0, (question.deadline - parts.timekeeper.uptime()) / .seconds(1))
            let target = coordination.target(of: question.presenter)
            news.path = try await path(of: target?.item)
            if !question.subitems.isEmpty {
                var paths = [String]()
                for item in question.subitems { paths += [try await path(of: item)].compactMap { $0 } }
                news.subitems = paths
            }
        case .reacquire(let question, let presenter):
            news = ClientNews(.reacquire)
            news.question = question.number
            news.presenter = presenter.number
        case .passedOver(let question, let presenter):
            news = ClientNews(.passedOver)
            news.question = question.number
            news.presenter = presenter.number
        case .event(let event): news = self.news(of: event)
        }
        return news
    }

    private func path(of item: ItemKey?) async throws -> String? {
        guard let item else { return nil }
        return try await pool.run { [tree = parts.tree] in try tree.path(of: item) }
    }

    private func news(of event: PresenterEvent) -> ClientNews {
        var news = ClientNews(event.kind.forClients)
        news.path = event.path
        news.oldPath = event.oldPath
        news.version = event.version
        news.isConflict = event.isConflict
        news.fields = event.fields
        if !event.presenters.isEmpty { news.presenters = event.presenters.map(\.number) }
        if !event.folderPresenters.isEmpty { news.folderPresenters = event.folderPresenters.map(\.number) }
        return news
    }
}

extension PresenterEvent.Kind {
    fileprivate var forClients: ClientNews.Kind {
        switch self {
        case .changed: .changed
        case .moved: .moved
        case .removed: .removed
        case .added: .added
        case .attributesChanged: .ubiquityAttributesChanged
        case .versionGained: .versionGained
        case .versionLost: .versionLost
        case .versionResolved: .versionResolved
        case .begin: .begin
        case .end: .end
        }
    }
}
