import FoundationEssentials
import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The tokens and devices of an account: for a token with all rights, and for the cloud's owner, who names the account
/// in the query.
struct TokenRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        router.get("v1/rights", use: rights)
        router.get("v1/tokens", use: tokens)
        router.post("v1/tokens", use: create)
        router.delete("v1/tokens/:token", use: revoke)
        router.get("v1/devices", use: devices)
        router.delete("v1/devices/:device", use: remove)
    }

    /// For every token: a device asks it at its sign-in.
    @Sendable private func rights(_ request: Request, _ context: CloudContext) async throws -> Response {
        let holder = try await access.holder(request, context)
        return try Response(
            json: OwnRights(
                account: holder.account, containers: holder.rights.containers?.map(\.name).sorted(),
                readOnly: holder.rights.isReadOnly))
    }

    @Sendable private func tokens(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.managedAccount(request, context, to: "list tokens")
        return try Response(json: TokenList(tokens: await access.cloud().tokens.list(of: account)))
    }

    @Sendable private func create(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.managedAccount(request, context, to: "create tokens")
        let wanted: TokenRequest = try await request.json(like: "{\"name\": \"…\", \"containers\": […]}")
        return try Response(json: await access.cloud().tokens.create(of: account, wanted), status: .created)
    }

    @Sendable private func revoke(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.managedAccount(request, context, to: "revoke tokens")
        try await access.cloud().tokens.revoke(context.name("token"), of: account)
        return Response(status: .noContent)
    }

    @Sendable private func devices(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.managedAccount(request, context, to: "list devices")
        return try Response(json: DeviceList(devices: await access.cloud().devices.list(of: account)))
    }

    @Sendable private func remove(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.managedAccount(request, context, to: "remove devices")
        return try Response(json: await access.cloud().devices.remove(context.name("device"), of: account))
    }
}

extension Request {
    /// A small JSON body.
    func json<Value: Decodable>(like example: String) async throws -> Value {
        let bytes = try await bytes(limit: ServerLimits.accountRequestLength)
        do {
            return try JSONDecoder().decode(Value.self, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "the request is not \(example)")
        }
    }
}

extension CloudContext {
    /// A percent-encoded name in the path.
    func name(_ parameter: String) throws -> String {
        guard let name = parameters.get(parameter).flatMap(PercentEncoding.decode) else {
            throw UbiquityError(.invalidName, "the \(parameter)'s name is not percent-encoded UTF-8")
        }
        return name
    }
}

extension Response {
    /// An answer in plain JSON.
    init(json value: some Encodable, status: HTTPResponse.Status = .ok) throws {
        self.init(status: status, mediaType: WireFormat.json.mediaType, bytes: Array(try JSONEncoder().encode(value)))
    }
}
