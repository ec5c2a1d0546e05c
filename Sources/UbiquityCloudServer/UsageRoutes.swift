import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The containers of an account and the space that it takes. A token for some containers sees the documents of these
/// only.
struct UsageRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        router.get("v1/usage", use: usage)
        router.get("v1/containers", use: list)
        router.put("v1/containers/:container", use: set)
        router.delete("v1/containers/:container", use: delete)
        router.post("v1/containers/:container/restore", use: restore)
    }

    /// The containers of the account; of a token for some containers, these only.
    @Sendable private func list(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, rights) = try await access.seenAccount(request, context)
        var containers = try await access.cloud().containers.list(of: account)
        if let allowed = rights.containers {
            let names = Set(allowed.map(\.name))
            containers.removeAll { !names.contains($0.name) }
        }
        return try Response(json: ContainerList(containers: containers))
    }

    @Sendable private func set(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.changedContainer(request, context)
        let settings: ContainerSettings = try await request.json(like: "{\"displayName\": \"…\"}")
        try await access.cloud().containers.set(container, settings, of: account)
        return Response(status: .noContent)
    }

    /// Deletes all items of a container. They can be restored while the cloud keeps deleted items.
    @Sendable private func delete(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.changedContainer(request, context)
        return try Response(json: await access.cloud().deletions.delete(container, of: account))
    }

    @Sendable private func restore(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, container) = try await access.changedContainer(request, context)
        return try Response(json: await access.cloud().deletions.restore(container, of: account))
    }

    @Sendable private func usage(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (account, rights) = try await access.seenAccount(request, context)
        var usage = try await access.cloud().survey.usage(of: account)
        if let allowed = rights.containers {
            let names = Set(allowed.map(\.name))
            for index in usage.containers.indices where !names.contains(usage.containers[index].name) {
                usage.containers[index].documents = nil
                usage.containers[index].others = usage.containers[index].bytes
            }
        }
        return try Response(json: usage)
    }
}
