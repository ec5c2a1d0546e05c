import AsyncHTTPClient
import FoundationEssentials
import NIOCore
import NIOHTTP1
package import UbiquityCore
package import UbiquityWire

/// Manages accounts, their tokens and their devices: all of a cloud's over its Unix socket, or the own account with a
/// token.
package final class CloudAdministrator: Sendable {
    private let transport: Transport

    /// - Parameter token: with all rights. Nil for the cloud's owner at its socket.
    package init(_ address: CloudAddress, token: String? = nil) throws {
        var headers = HTTPHeaders()
        if let token { headers.add(name: "authorization", value: "Bearer \(token)") }
        transport = try Transport(address: address, headers: headers)
    }

    package func shutdown() async { await transport.shutdown() }

    // MARK: Accounts, for the owner

    package func accounts() async throws -> [String] {
        try await ask(AccountList.self, .GET, "accounts").accounts
    }

    /// Creates an account.
    /// - Returns: its token, which the cloud reveals only now.
    package func createAccount(_ name: String, quota: Int64? = nil) async throws -> String {
        try await ask(AccountToken.self, .POST, "accounts", AccountRequest(name: name, quota: quota)).token
    }

    /// - Parameter quota: in bytes; nil for the quota of all accounts.
    package func setQuota(_ quota: Int64?, of account: String) async throws {
        try await ask(.PUT, "accounts/\(PercentEncoding.encode(account))", AccountSettings(quota: quota))
    }

    package func deleteAccount(_ name: String) async throws {
        try await ask(.DELETE, "accounts/\(PercentEncoding.encode(name))")
    }

    // MARK: One account; nil is the own one

    /// The account and the rights of the own token.
    package func rights() async throws -> OwnRights { try await ask(OwnRights.self, .GET, "rights") }

    package func tokens(of account: String?) async throws -> [TokenEntry] {
        try await ask(TokenList.self, .GET, Self.path("tokens", account)).tokens
    }

    package func createToken(_ request: TokenRequest, of account: String?) async throws -> NewToken {
        try await ask(NewToken.self, .POST, Self.path("tokens", account), request)
    }

    package func revokeToken(_ name: String, of account: String?) async throws {
        try await ask(.DELETE, Self.path("tokens/\(PercentEncoding.encode(name))", account))
    }

    package func devices(of account: String?) async throws -> [DeviceEntry] {
        try await ask(DeviceList.self, .GET, Self.path("devices", account)).devices
    }

    /// - Parameter device: its name or its id.
    package func removeDevice(_ device: String, of account: String?) async throws -> RemovedDevice {
        try await ask(RemovedDevice.self, .DELETE, Self.path("devices/\(PercentEncoding.encode(device))", account))
    }

    // MARK: Sign-in by code

    /// Asks for a code, for a device without a token.
    package func requestSignIn(_ request: SignInRequest) async throws -> SignInCode {
        try await ask(SignInCode.self, .POST, "sign-ins", request)
    }

    /// The token of a device that waits with this secret; nil while its code waits for a decision.
    package func collectSignIn(_ secret: String) async throws -> NewToken? {
        try await ask(SignInAnswer.self, .POST, "sign-ins/collect", SignInSecret(secret: secret)).token
    }

    package func pendingSignIns(of account: String?) async throws -> [PendingSignIn] {
        try await ask(PendingSignInList.self, .GET, Self.path("sign-ins", account)).signIns
    }

    package func approveSignIn(_ decision: SignInDecision, of account: String?) async throws -> PendingSignIn {
        try await ask(PendingSignIn.self, .POST, Self.path("sign-ins/approve", account), decision)
    }

    package func refuseSignIn(_ code: String, of account: String?) async throws -> PendingSignIn {
        try await ask(PendingSignIn.self, .POST, Self.path("sign-ins/refuse", account), SignInDecision(code: code))
    }

    // MARK: Containers, usage and the trash

    package func containers(of account: String?) async throws -> [ContainerEntry] {
        try await ask(ContainerList.self, .GET, Self.path("containers", account)).containers
    }

    /// Creates a container if it is missing.
    package func setContainer(
        _ container: ContainerID, _ settings: ContainerSettings, of account: String?
    ) async throws {
        try await ask(.PUT, Self.path(Self.path(of: container), account), settings)
    }

    /// Asks for the space that an account takes on the cloud's disk.
    package func usage(of account: String?) async throws -> AccountUsage {
        try await ask(AccountUsage.self, .GET, Self.path("usage", account))
    }

    /// Deletes all items of a container.
    package func deleteItems(of container: ContainerID, of account: String?) async throws -> DeletedContainer {
        try await ask(DeletedContainer.self, .DELETE, Self.path(Self.path(of: container), account))
    }

    /// Restores the items that `deleteItems` deleted.
    package func restoreItems(of container: ContainerID, of account: String?) async throws -> RestoredContainer {
        try await ask(RestoredContainer.self, .POST, Self.path(Self.path("restore", of: container), account))
    }

    /// Removes all deleted items of a container for ever.
    package func emptyTrash(of container: ContainerID, of account: String?) async throws -> PurgedItems {
        try await ask(PurgedItems.self, .DELETE, Self.path(Self.trash(container), account))
    }

    /// Removes a deleted item for ever, with all its versions.
    package func purge(_ item: ItemID, in container: ContainerID, of account: String?) async throws -> PurgedItems {
        try await ask(PurgedItems.self, .DELETE, Self.path("\(Self.trash(container))/\(item)", account))
    }

    private static func trash(_ container: ContainerID) -> String { path("trash", of: container) }

    private static func path(_ path: String, of container: ContainerID) -> String {
        "\(Self.path(of: container))/\(path)"
    }

    private static func path(of container: ContainerID) -> String {
        "containers/\(PercentEncoding.encode(container.name))"
    }

    // MARK: Links

    /// Creates a link to an item of a container.
    package func createLink(
        _ request: LinkRequest, in container: ContainerID, of account: String?
    ) async throws -> NewLink {
        try await ask(NewLink.self, .POST, Self.path(Self.path("links", of: container), account), request)
    }

    /// The links in force of a container.
    /// - Parameter item: only those to this item.
    package func links(
        in container: ContainerID, to item: ItemID? = nil, of account: String?
    ) async throws -> [LinkEntry] {
        let query = [item.map { "item=\($0)" }, account.map { "account=\(PercentEncoding.encode($0))" }]
            .compactMap { $0 }
        let path = Self.path("links", of: container) + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
        return try await ask(LinkList.self, .GET, path).links
    }

    /// - Parameter link: its number, or its secret.
    package func revokeLink(_ link: String, in container: ContainerID, of account: String?) async throws {
        let path = Self.path("links/\(PercentEncoding.encode(link))", of: container)
        try await ask(.DELETE, Self.path(path, account))
    }

    // MARK: Requests

    private static func path(_ path: String, _ account: String?) -> String {
        path + (account.map { "?account=\(PercentEncoding.encode($0))" } ?? "")
    }

    private func ask<Answer: Decodable>(
        _ type: Answer.Type, _ method: HTTPMethod, _ path: String, _ question: (any Encodable & Sendable)? = nil
    ) async throws -> Answer {
        let bytes = try await send(method, path, question, hasAnswer: true)
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "the cloud's answer cannot be read", at: transport.address.description)
        }
    }

    private func ask(_ method: HTTPMethod, _ path: String, _ question: (any Encodable & Sendable)? = nil) async throws {
        _ = try await send(method, path, question, hasAnswer: false)
    }

    private func send(
        _ method: HTTPMethod, _ path: String, _ question: (any Encodable & Sendable)?, hasAnswer: Bool
    ) async throws -> [UInt8] {
        let content = try question.map { question in
            let body = ByteBuffer(bytes: try JSONEncoder().encode(question))
            return Transport.Content(
                mediaType: WireFormat.json.mediaType, length: body.readableBytes,
                digest: MessageDigest.field(of: Array(body.readableBytesView))
            ) {
                .bytes(body)
            }
        }
        return try await transport.repeating(within: ClientLimits.control) {
            let response = try await transport.send(
                method, "/v1/" + path, content, accept: WireFormat.json.mediaType, answersWithBody: hasAnswer,
                within: ClientLimits.control)
            return try await transport.body(of: response, limit: ClientLimits.failureLength)
        }
    }
}
