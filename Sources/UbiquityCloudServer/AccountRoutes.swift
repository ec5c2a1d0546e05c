import FoundationEssentials
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
        return try Self.answer(AccountList(accounts: await access.host.accounts()))
    }

    @Sendable private func create(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        let bytes = try await request.bytes(limit: ServerLimits.accountRequestLength)
        let name: String
        do {
            name = try JSONDecoder().decode(AccountRequest.self, from: Data(bytes)).name
        } catch {
            throw UbiquityError(.invalid, "the request is not {\"name\": \"…\"}")
        }
        let token = try await access.host.createAccount(name)
        return try Self.answer(AccountToken(name: name, token: token), status: .created)
    }

    @Sendable private func delete(_ request: Request, _ context: CloudContext) async throws -> Response {
        try access.requireOwner(context, to: "manage accounts")
        guard let name = context.parameters.get("account").flatMap(PercentEncoding.decode) else {
            throw UbiquityError(.invalidName, "the account's name is not percent-encoded UTF-8")
        }
        try await access.host.deleteAccount(name)
        return Response(status: .noContent)
    }

    private static func answer(_ value: some Encodable, status: HTTPResponse.Status = .ok) throws -> Response {
        Response(status: status, mediaType: WireFormat.json.mediaType, bytes: Array(try JSONEncoder().encode(value)))
    }
}
