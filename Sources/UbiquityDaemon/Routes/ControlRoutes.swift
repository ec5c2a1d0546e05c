import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The routes of the local socket, except those of coordination clients and queries.
struct ControlRoutes: Sendable {
    let commands: MountCommands
    let responder = Responder()

    func router() -> Router<BasicRequestContext> {
        let router = Router()
        router.add(middleware: UnknownRoutes())
        let pool = commands.parts.pool
        router.add(
            middleware: AppRights(container: commands.parts.settings.container) {
                try await pool.run { try UserConfiguration.load() }
            })
        addItemRoutes(to: router)
        addVersionRoutes(to: router)
        addMountRoutes(to: router)
        KeyValueRoutes(commands: commands.keyValues, responder: responder).add(to: router)
        CoordinationRoutes(commands: commands.coordination, responder: responder).add(to: router)
        QueryRoutes(commands: commands, responder: responder).add(to: router)
        return router
    }

    private func addItemRoutes(to router: Router<BasicRequestContext>) {
        let items = commands.items
        add(ControlRoute.itemStatus, to: router, items.status)
        add(ControlRoute.download, to: router, items.download)
        router.post(RouterPath(ControlRoute.evict)) { request, _ in
            do {
                return LineStream.response(items.evict(try await responder.message(EvictRequest.self, of: request)))
            } catch { return try await responder.refuse(error) }
        }
        add(ControlRoute.pin, to: router) { items.setPinned(true, $0) }
        add(ControlRoute.unpin, to: router) { items.setPinned(false, $0) }
    }

    private func addVersionRoutes(to router: Router<BasicRequestContext>) {
        responder.add(ControlRoute.versions, to: router, answering: commands.versions.list)
        responder.add(ControlRoute.addVersion, to: router, answering: commands.versions.additions.add)
        responder.add(ControlRoute.changeVersion, to: router, answering: commands.versions.additions.change)
        responder.add(ControlRoute.syncControl, to: router, answering: commands.versions.syncControl.control)
        responder.add(ControlRoute.resolve, to: router, answering: commands.versions.resolve)
        responder.add(ControlRoute.restore, to: router, answering: commands.versions.restore)
        responder.add(ControlRoute.trash, to: router, answering: commands.trash.list)
        responder.add(ControlRoute.trashRestore, to: router, answering: commands.trash.restore)
        responder.add(ControlRoute.publish, to: router, answering: commands.publish.publish)
        responder.add(ControlRoute.published, to: router, answering: commands.publish.list)
        responder.add(ControlRoute.unpublish, to: router, answering: commands.publish.revoke)
    }

    private func addMountRoutes(to router: Router<BasicRequestContext>) {
        let administration = commands.administration
        router.get(RouterPath(ControlRoute.status)) { _, _ in
            try await responder.answer { try await commands.status.report() }
        }
        router.post(RouterPath(ControlRoute.offline)) { _, _ in try await setOffline(true) }
        router.post(RouterPath(ControlRoute.online)) { _, _ in try await setOffline(false) }
        responder.add(ControlRoute.log, to: router, answering: administration.setLog)
        responder.add(ControlRoute.deletions, to: router, answering: administration.decideDeletions)
        responder.add(ControlRoute.doctor, to: router, answering: administration.examine)
        router.get(RouterPath(ControlRoute.events)) { _, _ in try await events() }
        router.post(RouterPath(ControlRoute.wait)) { request, _ in try await wait(request) }
        responder.add(ControlRoute.account, to: router, answering: commands.account.follow)
        responder.add(ControlRoute.stop, to: router, answering: commands.unmount.stop)
    }

    private func setOffline(_ offline: Bool) async throws -> Response {
        try await responder.answer {
            try await commands.administration.setOffline(offline)
            return Acknowledgement()
        }
    }

    /// A route that takes paths and answers with one line for each result, as soon as it is known.
    private func add<Line: Encodable & Sendable>(
        _ route: String, to router: Router<BasicRequestContext>,
        _ work: @escaping @Sendable ([String]) -> @Sendable () async throws -> Line?
    ) {
        router.post(RouterPath(route)) { request, _ in
            do {
                return LineStream.response(work(try await responder.message(PathsRequest.self, of: request).paths))
            } catch { return try await responder.refuse(error) }
        }
    }

    private func wait(_ request: Request) async throws -> Response {
        do {
            let wait = try await commands.wait.wait(for: responder.message(WaitRequest.self, of: request))
            return responder.line(wait)
        } catch { return try await responder.refuse(error) }
    }

    private func events() async throws -> Response {
        let hub = commands.events, timekeeper = commands.parts.timekeeper, keyValues = commands.keyValues
        guard let (number, signals) = hub.listen() else {
            return try await responder.refuse(
                UbiquityError(.tooManyRequests, "too many listeners: at most \(EventHub.maximumListeners)"))
        }
        return responder.events(
            ResponseBody { writer in
                defer { hub.forget(number) }
                try await writer.write(Responder.event(ControlEvent(.listening, at: timekeeper.now())))
                for event in keyValues.takeUnheard() { try await writer.write(Responder.event(event)) }
                // A write reveals that the client has gone, at the latest the heartbeat's.
                for await signal in signals {
                    if hub.takeLoss(of: number) {
                        try await writer.write(Responder.event(ControlEvent(.overflow, at: timekeeper.now())))
                    }
                    switch signal {
                    case .event(let event): try await writer.write(Responder.event(event))
                    case .heartbeat: try await writer.write(ByteBuffer(string: ": still here\n\n"))
                    }
                }
                try await writer.finish(nil)
            })
    }
}
