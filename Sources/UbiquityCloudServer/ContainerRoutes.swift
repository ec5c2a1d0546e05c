import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// A container's state: open, feed, commit, manifests, usage.
struct ContainerRoutes: Sendable {
    let access: CloudAccess
    let counters: Counters

    func add(to router: Router<CloudContext>) {
        let container = router.group("v1/containers/:container")
        container.post(use: open)
        container.get("changes", use: changes)
        container.get("snapshot", use: snapshot)
        container.post("commit", use: commit)
        container.get("versions/:version", use: manifest)
        container.get("items/:item/versions", use: versions)
        container.get("trash", use: trash)
        container.get("usage", use: usage)
    }

    @Sendable private func open(_ request: Request, _ context: CloudContext) async throws -> Response {
        let point = request.uri.queryParameters["after"] == nil ? nil : try point(request)
        return try await Response(access.service(request, context).open(knowing: point), for: request)
    }

    @Sendable private func changes(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (after, limit) = try page(request)
        return try await Response(access.service(request, context).changes(after: after, limit: limit), for: request)
    }

    @Sendable private func snapshot(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (after, limit) = try page(request)
        return try await Response(access.service(request, context).snapshot(after: after, limit: limit), for: request)
    }

    /// The feed page that the query asks for.
    private func page(_ request: Request) throws -> (after: FeedPoint, limit: Int) {
        let most = Int64(Limits.maximumItemsPerPage)
        return (try point(request), Int(try request.number("limit", in: 1...most, else: most)))
    }

    private func point(_ request: Request) throws -> FeedPoint {
        FeedPoint(
            Revision(try request.number("after", in: 0...Int64.max, else: 0)), mark: try request.unsigned("mark") ?? 0,
            incarnation: try request.unsigned("incarnation"))
    }

    @Sendable private func commit(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (holder, service) = try await access.signedIn(request, context, isWriting: true)
        let limit = Limits.maximumMessageLength
        let announced = try request.announcedLength(limit: limit)
        // A body without an announced length may have any length.
        let length = announced == 0 && request.header("transfer-encoding") != nil ? limit : announced
        let commit = { try await service.commit(request.message(CommitRequest.self, limit: limit)) }
        let isSmall = length <= ServerLimits.smallBody
        let response = isSmall ? try await commit() : try await access.bodies.run(length, of: holder.account, commit)
        counters.countCommit()
        return try Response(response, for: request)
    }

    @Sendable private func manifest(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context)
        guard let text = context.parameters.get("version"), let version = VersionID(hex: text) else {
            throw UbiquityError(.invalid, "a version's id is 32 hexadecimal digits")
        }
        return try Response(VersionManifest(await service.manifest(of: version)), for: request)
    }

    @Sendable private func versions(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context)
        guard let item = context.parameters.get("item").flatMap({ ItemID(hex: $0) }) else { throw Self.noItem }
        return try Response(await service.allVersions(of: item), for: request)
    }

    /// `in` is a folder's id; `deleted` (nanoseconds) and `after` (an id) together name the item after which to begin.
    @Sendable private func trash(_ request: Request, _ context: CloudContext) async throws -> Response {
        let service = try await access.service(request, context)
        let most = Int64(Limits.maximumTrashPage)
        let limit = Int(try request.number("limit", in: 1...most, else: most))
        let deletedAt = Timestamp(nanoseconds: try request.number("deleted", in: 0...Int64.max, else: 0))
        let position = try Self.item("after", of: request).map { TrashPosition(deletedAt: deletedAt, id: $0) }
        return try Response(
            await service.trash(in: Self.item("in", of: request), after: position, limit: limit), for: request)
    }

    private static func item(_ name: String, of request: Request) throws -> ItemID? {
        guard let text = request.uri.queryParameters[name[...]] else { return nil }
        guard let item = ItemID(hex: String(text)) else { throw noItem }
        return item
    }

    private static var noItem: UbiquityError { UbiquityError(.invalid, "an item's id is 32 hexadecimal digits") }

    @Sendable private func usage(_ request: Request, _ context: CloudContext) async throws -> Response {
        try await Response(access.service(request, context).usage(), for: request)
    }
}
