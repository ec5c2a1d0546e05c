import AsyncHTTPClient
import FoundationEssentials
import NIOCore
import NIOHTTP1
internal import UbiquityCore
internal import UbiquityWire

/// Manages the accounts of a cloud over its Unix socket.
package final class CloudAdministrator: Sendable {
    private let transport: Transport

    package init(_ address: CloudAddress) throws { transport = try Transport(address: address, headers: [:]) }

    package func shutdown() async { await transport.shutdown() }

    package func accounts() async throws -> [String] {
        try await decoded(AccountList.self, from: send(.GET, "")).accounts
    }

    /// Creates an account.
    /// - Returns: its token, which the cloud reveals only now.
    package func createAccount(_ name: String) async throws -> String {
        let body = ByteBuffer(bytes: try JSONEncoder().encode(AccountRequest(name: name)))
        let content = Transport.Content(
            mediaType: WireFormat.json.mediaType, length: body.readableBytes,
            digest: MessageDigest.field(of: Array(body.readableBytesView))
        ) {
            .bytes(body)
        }
        return try await decoded(AccountToken.self, from: send(.POST, "", content)).token
    }

    package func deleteAccount(_ name: String) async throws {
        _ = try await send(.DELETE, "/\(PercentEncoding.encode(name))")
    }

    private func send(_ method: HTTPMethod, _ path: String, _ content: Transport.Content? = nil) async throws -> [UInt8]
    {
        try await transport.repeating(within: ClientLimits.control) {
            let response = try await transport.send(
                method, "/v1/accounts" + path, content, accept: WireFormat.json.mediaType,
                answersWithBody: method != .DELETE, within: ClientLimits.control)
            return try await transport.body(of: response, limit: ClientLimits.failureLength)
        }
    }

    private func decoded<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        do {
            return try JSONDecoder().decode(type, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "the cloud's answer cannot be read", at: transport.address.description)
        }
    }
}
