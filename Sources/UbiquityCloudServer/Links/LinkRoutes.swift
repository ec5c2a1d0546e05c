import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The links of a container: for its devices, and for the cloud's owner, who names the account in the query.
struct LinkRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        let links = router.group("v1/containers/:container/links")
        links.get(use: list)
        links.post(use: create)
        links.delete(":link", use: revoke)
    }

    @Sendable private func list(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.namedContainer(request, context, isWriting: false)
        let item = try request.uri.queryParameters["item"].map { text in
            guard let item = ItemID(hex: String(text)) else {
                throw UbiquityError(.invalid, "an item's id is 32 hexadecimal digits")
            }
            return item
        }
        return try Response(
            json: LinkList(links: await access.cloud().links.list(in: container, of: account, to: item)))
    }

    @Sendable private func create(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.namedContainer(request, context, isWriting: true)
        let wanted: LinkRequest = try await request.json(like: "{\"item\": \"…\", \"lifetime\": 604800}")
        let link = try await access.cloud().links.create(wanted, in: container, of: account)
        return try Response(json: link, status: .created)
    }

    @Sendable private func revoke(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.namedContainer(request, context, isWriting: true)
        try await access.cloud().links.revoke(context.name("link"), in: container, of: account)
        return Response(status: .noContent)
    }
}
