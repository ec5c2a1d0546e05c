import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquitySystem

/// The routes of coordination clients.
struct CoordinationRoutes: Sendable {
    let commands: CoordinationCommands
    let responder: Responder

    func add(to router: Router<BasicRequestContext>) {
        router.post(RouterPath(ControlRoute.clients)) { request, _ in try await client(request) }
        responder.add(ControlRoute.leave, to: router, answering: commands.leave)
        responder.add(ControlRoute.presenters, to: router, answering: commands.addPresenter)
        responder.add(ControlRoute.removePresenter, to: router, answering: commands.removePresenter)
        responder.add(ControlRoute.moves, to: router, answering: commands.announceMove)
        responder.add(ControlRoute.answer, to: router, answering: commands.answer)
        router.post(RouterPath(ControlRoute.claims)) { request, _ in try await claim(request) }
        responder.add(ControlRoute.endClaim, to: router, answering: commands.claims.end)
        router.get(RouterPath(ControlRoute.coordination)) { _, _ in
            try await responder.answer { [report = CoordinationReport(parts: commands.parts)] in
                try await report.pool.run { try report.status() }
            }
        }
    }

    /// Registers a client for as long as it reads its messages.
    private func client(_ request: Request) async throws -> Response {
        do {
            let wanted = try await responder.message(ClientRegistration.self, of: request)
            let (client, messages) = try commands.addClient(wanted)
            return responder.events(
                ResponseBody { writer in
                    defer { commands.remove(client) }
                    var first = ClientNews(.registered)
                    first.client = client.number
                    try await writer.write(Responder.event(first))
                    let news = CoordinationNews(parts: commands.parts)
                    for await message in messages {
                        if commands.coordination.takeLoss(of: client) {
                            try await writer.write(Responder.event(ClientNews(.overflow)))
                        }
                        guard let news = try await news.news(message) else {
                            try await writer.write(ByteBuffer(string: ": still here\n\n"))
                            continue
                        }
                        try await writer.write(Responder.event(news))
                    }
                    try await writer.finish(nil)
                })
        } catch { return try await responder.refuse(error) }
    }

    /// Answers one line when the claim is granted or refused. A client that stops waiting has no claim.
    private func claim(_ request: Request) async throws -> Response {
        do {
            let wanted = try await responder.message(ClaimMessage.self, of: request)
            return responder.line {
                await commands.claims.claim(wanted)
            } lost: { report in
                guard let claim = report.claim else { return }
                _ = commands.coordination.end(ClaimID(claim), of: ClientID(wanted.client))
            }
        } catch { return try await responder.refuse(error) }
    }
}
