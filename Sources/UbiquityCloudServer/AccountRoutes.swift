import Hummingbird
internal import UbiquityCore
internal import UbiquityWire

/// Account management, for the command line on the cloud's own machine.
struct AccountRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        router.get("v1/accounts", use: list)
        router.post("v1/accounts", use: create)
        router.delete("v1/accounts/:account", use: delete)
    }

    @Sendable private func list(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        return try Response(json: AccountList(accounts: await access.host.accounts()))
    }

    @Sendable private func create(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        let wanted: AccountRequest = try await request.json(like: "{\"name\": \"…\"}")
        let name = wanted.name
        let token = try await access.host.createAccount(name)
        return try Response(json: AccountToken(name: name, token: token), status: .created)
    }

    @Sendable private func delete(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        try await access.host.deleteAccount(context.name("account"))
        return Response(status: .noContent)
    }
}
