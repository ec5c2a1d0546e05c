import NIOCore
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Revoked tokens, over HTTP. CI-11, CI-13, AW-14: a device learns at once that it was signed out, and why.
@Suite struct RevocationTests {
    @Test func revocationEndsTheStreamWithItsReason() async throws {
        try await RealCloud.run { socket, web, cloud in
            let first = try await cloud.createAccount("alice")
            let phone = try await cloud.tokens.create(of: "alice", TokenRequest(name: "phone"))
            let clients = [
                try RealCloud.client(web, token: first, device: 1), try RealCloud.client(web, token: phone.token, device: 2),
            ]
            for client in clients { _ = try await client.open() }
            var kept = try await clients[0].news().makeAsyncIterator()
            var lost = try await clients[1].news().makeAsyncIterator()
            #expect(try await kept.next() == .zero)
            #expect(try await lost.next() == .zero)
            let admin = try CloudAdministrator(socket)
            try await admin.revokeToken("phone", of: "alice")
            let pushed = await #expect(throws: UbiquityError.self) { _ = try await lost.next() }
            #expect(pushed?.code == .signedOut && pushed?.message.contains("revoked") == true)
            let refused = await #expect(throws: UbiquityError.self) { _ = try await clients[1].usage() }
            #expect(refused?.code == .signedOut && refused?.message.contains("\"phone\"") == true)
            #expect(try await clients[0].usage().usedBytes == 0)
            await admin.shutdown()
            for client in clients { await client.shutdown() }
        }
    }

    @Test func revocationClosesConnections() async throws {
        try await RealCloud.run { _, web, cloud in
            let token = try await cloud.createAccount("alice")
            guard case .web(let url, _) = web, let port = url.split(separator: ":").last.flatMap({ Int($0) }) else {
                throw HarnessFailure(reason: "no port in \(web)")
            }
            let answer = try await Plain.conversation(port: port) { inbound, outbound in
                try await outbound.write(
                    .init(string: "GET /v1/rights HTTP/1.1\r\nhost: a\r\nauthorization: Bearer \(token)\r\n\r\n"))
                var text = ""
                for try await part in inbound {
                    text += String(buffer: part)
                    // The connection stays open for the next request until the token goes.
                    if text.contains("}") { try await cloud.tokens.revoke("token 1", of: "alice") }
                }
                return text
            }
            #expect(answer.contains("\"account\":\"alice\""))
        }
    }

    @Test func ownTokensAreManagedWithAllRightsOnly() async throws {
        try await RealCloud.run { _, web, cloud in
            let all = try CloudAdministrator(web, token: try await cloud.createAccount("alice"))
            _ = try await cloud.createAccount("bob")
            let some = try await all.createToken(TokenRequest(name: "app", containers: ["notes"]), of: nil)
            #expect(some.account == "alice")
            #expect(try await all.tokens(of: nil).map(\.name) == ["app", "token 1"])
            let app = try CloudAdministrator(web, token: some.token)
            #expect(try await app.rights() == OwnRights(account: "alice", containers: ["notes"], readOnly: false))
            for administrator in [app, all] {
                // An app must not give itself more rights; no account manages another one.
                let account = administrator === all ? "bob" : nil
                let error = await #expect(throws: UbiquityError.self) {
                    _ = try await administrator.createToken(TokenRequest(), of: account)
                }
                #expect(error?.code == .accessDenied)
            }
            try await all.revokeToken("app", of: "alice")
            let revoked = await #expect(throws: UbiquityError.self) { _ = try await app.rights() }
            #expect(revoked?.code == .signedOut)
            for administrator in [app, all] { await administrator.shutdown() }
        }
    }

    @Test func devicesNameThemselvesAtTheirRequests() async throws {
        try await RealCloud.run { socket, web, cloud in
            let token = try await cloud.createAccount("alice")
            let clients = try (1...2).map { try RealCloud.client(web, token: token, device: UInt64($0)) }
            for client in clients { _ = try await client.open() }
            let admin = try CloudAdministrator(socket)
            #expect(try await admin.devices(of: "alice").map(\.name) == ["device 1", "device 2"])
            let removed = try await admin.removeDevice("device 1", of: "alice")
            #expect(removed.revokedTokens == ["token 1"] && removed.otherDevices == ["device 2"])
            for client in clients {
                let error = await #expect(throws: UbiquityError.self) { _ = try await client.open() }
                #expect(error?.code == .signedOut)
                await client.shutdown()
            }
            // Devices of the embedded cloud have no token.
            let local = try RealCloud.client(socket, device: 3)
            _ = try await local.open()
            #expect(try await admin.devices(of: nil).map(\.name) == ["device 3"])
            await local.shutdown()
            await admin.shutdown()
        }
    }
}
