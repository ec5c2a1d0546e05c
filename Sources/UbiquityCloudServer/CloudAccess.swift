import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
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

    let sessions = TokenSessions()
    private let failures: FailedSignIns
    private let counters: Counters

    init(host: CloudHost, counters: Counters, failures: FailedSignIns) {
        self.host = host
        self.counters = counters
        self.failures = failures
        host.cloud?.revocations.observe { [sessions] in sessions.revoke($0) }
    }

    /// The container in the request's path, in the account of its token.
    /// - Parameter isWriting: whether the route changes the container.
    func service(
        _ request: Request, _ context: CloudContext, isWriting: Bool = false
    ) async throws -> any CloudService {
        try await signedIn(request, context, isWriting: isWriting).service
    }

    /// The same, with the holder of the token.
    func signedIn(
        _ request: Request, _ context: CloudContext, isWriting: Bool = false
    ) async throws -> (holder: TokenHolder, service: any CloudService) {
        let (holder, container) = try await container(request, context, isWriting: isWriting)
        let contact = try contact(request)
        await host.cloud?.devices.record(contact, of: holder)
        return (holder, try await host.service(holder, container))
    }

    /// The key-value stores of the container in the request's path, with the holder of the token.
    func keyValues(
        _ request: Request, _ context: CloudContext, isWriting: Bool = false
    ) async throws -> (holder: TokenHolder, service: any KeyValueService) {
        let (holder, container) = try await container(request, context, isWriting: isWriting)
        let service = try await cloud().keyValues(
            account: holder.account, container: container, isReadOnly: holder.rights.isReadOnly)
        return (holder, service)
    }

    private func container(
        _ request: Request, _ context: CloudContext, isWriting: Bool
    ) async throws -> (holder: TokenHolder, container: ContainerID) {
        let holder = try await holder(request, context)
        guard let name = context.parameters.get("container"), let container = ContainerID(name) else {
            throw UbiquityError(.invalidName, "a container's name is \(ContainerID.rules)")
        }
        try holder.rights.require(container, isWriting: isWriting)
        return (holder, container)
    }

    /// The account and the container that a request changes. The cloud's owner may name any account in the query.
    func changedContainer(
        _ request: Request, _ context: CloudContext
    ) async throws -> (account: String, container: ContainerID) {
        try await namedContainer(request, context, isWriting: true)
    }

    /// The account and the container of a request. The cloud's owner may name any account in the query.
    func namedContainer(
        _ request: Request, _ context: CloudContext, isWriting: Bool
    ) async throws -> (account: String, container: ContainerID) {
        let (holder, container) = try await container(request, context, isWriting: isWriting)
        return (try named(request, holder), container)
    }

    /// The account that a request about tokens, devices or usage is for: that of its token, which needs all rights. The
    /// cloud's owner may name any account in the query.
    /// - Parameter action: the attempted action, with its verb.
    func managedAccount(
        _ request: Request, _ context: CloudContext, to action: String
    ) async throws -> String {
        let holder = try await holder(request, context)
        try holder.rights.requireAll(to: action)
        return try named(request, holder)
    }

    /// The account whose sign-ins a request decides about: that of its token, which needs all rights. Nil for the
    /// cloud's owner, who decides about all, or about those of the account in the query.
    /// - Parameter action: the attempted action, with its verb.
    func decidingAccount(_ request: Request, _ context: CloudContext, to action: String) async throws -> String? {
        let holder = try await holder(request, context)
        try holder.rights.requireAll(to: action)
        guard holder.token == nil else { return try named(request, holder) }
        return request.uri.queryParameters["account"].map(String.init)
    }

    /// The account that a request reads about, and the rights of its token.
    func seenAccount(
        _ request: Request, _ context: CloudContext
    ) async throws -> (account: String, rights: TokenRights) {
        let holder = try await holder(request, context)
        return (try named(request, holder), holder.rights)
    }

    private func named(_ request: Request, _ holder: TokenHolder) throws -> String {
        guard let name = request.uri.queryParameters["account"].map(String.init), name != holder.account else {
            return holder.account
        }
        guard holder.token == nil else {
            throw UbiquityError(.accessDenied, "this token is not of the account \(name)")
        }
        return name
    }

    /// The cloud, for routes that a test's substitute does not have.
    func cloud() throws -> Cloud {
        guard let cloud = host.cloud else { throw UbiquityError(.notSupported, "this cloud has no such accounts") }
        return cloud
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

    /// The account and the rights of a request.
    /// - Parameter login: a name and a token that the request has in another place than `bearer` looks at.
    func holder(
        _ request: Request, _ context: CloudContext, login: (name: String, token: String)? = nil
    ) async throws -> TokenHolder {
        guard let secret = try login?.token ?? request.bearer() else {
            guard context.isLocal else {
                throw UbiquityError(
                    .signedOut, "this cloud requires a token", remedy: "sign in with \"ubiquity login\"")
            }
            return TokenHolder(account: CloudHost.localAccount)
        }
        let account = login.flatMap { $0.name.isEmpty ? nil : $0.name }
        let origin = FailedSignIns.Origin(address: context.channel.remoteAddress?.ipAddress, account: account)
        try failures.admit(origin, token: secret)
        let holder: TokenHolder
        do { holder = try await host.authenticate(secret) } catch let revoked as RevokedToken {
            // Its device tries on by itself. It is no guess.
            throw revoked.error
        } catch let error as UbiquityError where error.code == .signedOut {
            counters.countFailedSignIn()
            failures.fail(origin, logger: context.logger)
            throw error
        }
        failures.accept(token: secret)
        if let token = holder.token { try sessions.enter(token, context.channel) }
        return holder
    }

    /// The device that the request names. Malformed fields are refused.
    private func contact(_ request: Request) throws -> DeviceContact? {
        let device = try request.header("ubiquity-device").map { text in
            guard let device = DeviceID(hex: text) else {
                throw UbiquityError(.invalid, "Ubiquity-Device is not 32 hexadecimal digits")
            }
            return device
        }
        let name = try request.header("ubiquity-device-name").map { text in
            guard let name = PercentEncoding.decode(text),
                name.utf8.count <= MessageLimits.maximumDeviceNameLength
            else { throw UbiquityError(.invalid, "Ubiquity-Device-Name is not a percent-encoded name") }
            return name
        }
        return device.map { DeviceContact(device: $0, name: name ?? "") }
    }
}
