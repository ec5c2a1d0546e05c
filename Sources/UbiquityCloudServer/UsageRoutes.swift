import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The space that an account takes. A token for some containers sees the documents of these only.
struct UsageRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) { router.get("v1/usage", use: usage) }

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
