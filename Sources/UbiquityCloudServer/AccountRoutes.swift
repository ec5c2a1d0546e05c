import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Account management, for the command line on the cloud's own machine.
struct AccountRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        router.get("v1/accounts", use: list)
        router.post("v1/accounts", use: create)
        router.put("v1/accounts/:account", use: set)
        router.delete("v1/accounts/:account", use: delete)
    }

    @Sendable private func list(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        return try Response(json: AccountList(accounts: await access.host.accounts()))
    }

    @Sendable private func create(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        let wanted: AccountRequest = try await request.json(like: "{\"name\": \"…\"}")
        let token = try await access.host.createAccount(wanted.name, wanted.quota)
        return try Response(json: AccountToken(name: wanted.name, token: token), status: .created)
    }

    @Sendable private func set(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        let settings: AccountSettings = try await request.json(like: "{\"quota\": 5000000000}")
        try await access.cloud().setQuota(settings.quota, of: context.name("account"))
        return Response(status: .noContent)
    }

    @Sendable private func delete(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        try await access.host.deleteAccount(context.name("account"))
        return Response(status: .noContent)
    }
}
