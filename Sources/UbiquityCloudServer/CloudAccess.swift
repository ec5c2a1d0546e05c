import Hummingbird
internal import UbiquityCore
internal import UbiquityWire

/// Authorizes requests, and resolves each to its container.
struct CloudAccess: Sendable {
    let host: CloudHost
    let uploads = AccountBudget(
        total: ServerLimits.uploads, perAccount: ServerLimits.uploadsPerAccount,
        refusal: "the cloud has too many uploads now")
    let bodies = AccountBudget(
        total: ServerLimits.bodyBytes, perAccount: ServerLimits.bodyBytesPerAccount,
        refusal: "the cloud has too many large requests now")

    /// The container in the request's path, in the account of its token.
    func service(_ request: Request, _ context: CloudContext) async throws -> any CloudService {
        try await signedIn(request, context).service
    }

    /// The same, with the account.
    func signedIn(
        _ request: Request, _ context: CloudContext
    ) async throws -> (account: String, service: any CloudService) {
        let account = try await account(request, context)
        guard let name = context.parameters.get("container"), let container = ContainerID(name) else {
            throw UbiquityError(.invalidName, "a container's name is \(ContainerID.rules)")
        }
        try checkDevice(request)
        return (account, try await host.service(account, container))
    }

    /// Throws unless the request came through the Unix socket.
    /// - Parameter action: the attempted action, with its verb.
    func requireOwner(_ context: CloudContext, to action: String) throws {
        guard context.isLocal else {
            throw UbiquityError(
                .notPermitted, "only the cloud's owner may \(action), on its own machine",
                remedy: "use \"ubiquity account\" there, or \"curl --unix-socket\" with the socket in the data folder")
        }
    }

    private func account(_ request: Request, _ context: CloudContext) async throws -> String {
        if let token = try request.bearer() { return try await host.authenticate(token) }
        guard context.isLocal else {
            throw UbiquityError(.signedOut, "this cloud requires a token", remedy: "sign in with \"ubiquity login\"")
        }
        return CloudHost.localAccount
    }

    /// Checks fields that serve the log and later uses. A malformed one is refused now, before anything relies on it.
    private func checkDevice(_ request: Request) throws {
        if let text = request.header("ubiquity-device"), DeviceID(hex: text) == nil {
            throw UbiquityError(.invalid, "Ubiquity-Device is not 32 hexadecimal digits")
        }
        if let text = request.header("ubiquity-device-name") {
            guard let name = PercentEncoding.decode(text),
                name.utf8.count <= MessageLimits.maximumDeviceNameLength
            else { throw UbiquityError(.invalid, "Ubiquity-Device-Name is not a percent-encoded name") }
        }
    }
}
