import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Removes deleted items for ever. The owner at the cloud's socket may name the account in the query.
struct PurgeRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        let trash = router.group("v1/containers/:container/trash")
        trash.delete(use: empty)
        trash.delete(":item", use: purge)
    }

    @Sendable private func empty(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.changedContainer(request, context)
        return try Response(json: await access.cloud().purges.emptyTrash(of: container, of: account))
    }

    @Sendable private func purge(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.changedContainer(request, context)
        guard let item = context.parameters.get("item").flatMap({ ItemID(hex: $0) }) else {
            throw UbiquityError(.invalid, "an item's id is 32 hexadecimal digits")
        }
        return try Response(json: await access.cloud().purges.purge(item, in: container, of: account))
    }
}
