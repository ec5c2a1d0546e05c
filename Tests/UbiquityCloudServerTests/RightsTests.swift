import AsyncHTTPClient
import FoundationEssentials
import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Every route of the cloud and the answer that each kind of client gets. The routes come from the router: one without
/// a row in the table fails the test. CI-02, CI-03: a token opens the containers that it names, and no others.
@Suite struct RightsTests {
    /// A kind of client. Alice's things are what all of them ask for.
    private enum Client: CaseIterable {
        case noToken, wrongToken
        /// Bob has an account and a container of the same name.
        case otherAccount, owner
        /// Tokens of Alice: for another container only, and for reading only.
        case otherContainer, readOnly
        /// The cloud's own user at its Unix socket, without a token.
        case socket
    }

    /// Statuses in the order of `Client.allCases`.
    private static let table: [String: [Int]] = [
        // For everybody.
        "GET /healthz": [200, 200, 200, 200, 200, 200, 200],
        // For the cloud's own user.
        "GET /metrics": [403, 403, 403, 403, 403, 403, 200],
        "GET /v1/accounts": [403, 403, 403, 403, 403, 403, 200],
        "POST /v1/accounts": [403, 403, 403, 403, 403, 403, 201],
        "PUT /v1/accounts/{account}": [403, 403, 403, 403, 403, 403, 204],
        "DELETE /v1/accounts/{account}": [403, 403, 403, 403, 403, 403, 204],
        // An account's own container. Of another account's items, versions and chunks there is nothing in it.
        "POST /v1/containers/{container}": [401, 401, 200, 200, 403, 200, 200],
        "GET /v1/containers/{container}/changes": [401, 401, 200, 200, 403, 200, 200],
        "GET /v1/containers/{container}/snapshot": [401, 401, 200, 200, 403, 200, 200],
        "POST /v1/containers/{container}/commit": [401, 401, 200, 200, 403, 403, 200],
        "GET /v1/containers/{container}/usage": [401, 401, 200, 200, 403, 200, 200],
        "GET /v1/containers/{container}/kv": [401, 401, 200, 200, 403, 200, 200],
        "POST /v1/containers/{container}/kv": [401, 401, 200, 200, 403, 403, 200],
        "GET /v1/containers/{container}/trash": [401, 401, 200, 200, 403, 200, 200],
        "DELETE /v1/containers/{container}/trash": [401, 401, 200, 200, 403, 403, 200],
        "DELETE /v1/containers/{container}/trash/{item}": [401, 401, 404, 409, 403, 403, 404],
        "GET /v1/containers": [401, 401, 200, 200, 200, 200, 200],
        "PUT /v1/containers/{container}": [401, 401, 204, 204, 403, 403, 204],
        "DELETE /v1/containers/{container}": [401, 401, 200, 200, 403, 403, 200],
        "POST /v1/containers/{container}/restore": [401, 401, 404, 404, 403, 403, 404],
        "GET /v1/containers/{container}/events": [401, 401, 200, 200, 403, 200, 200],
        "GET /v1/containers/{container}/versions/{version}": [401, 401, 404, 200, 403, 200, 404],
        "GET /v1/containers/{container}/items/{item}/versions": [401, 401, 404, 200, 403, 200, 404],
        "POST /v1/containers/{container}/chunks": [401, 401, 204, 204, 403, 403, 204],
        "POST /v1/containers/{container}/chunks/missing": [401, 401, 200, 200, 403, 403, 200],
        "POST /v1/containers/{container}/chunks/unsound": [401, 401, 200, 200, 403, 200, 200],
        "POST /v1/containers/{container}/chunks/fetch": [401, 401, 200, 200, 403, 200, 200],
        "GET /v1/containers/{container}/chunks/{chunk}": [401, 401, 404, 200, 403, 200, 404],
        // Links of a container, and the pages of a link for everybody with its URL.
        "GET /v1/containers/{container}/links": [401, 401, 200, 200, 403, 200, 200],
        "POST /v1/containers/{container}/links": [401, 401, 404, 201, 403, 403, 404],
        "DELETE /v1/containers/{container}/links/{link}": [401, 401, 404, 204, 403, 403, 404],
        "GET /s/{secret}": [200, 200, 200, 200, 200, 200, 200],
        "HEAD /s/{secret}": [200, 200, 200, 200, 200, 200, 200],
        "GET /s/{secret}/content": [200, 200, 200, 200, 200, 200, 200],
        "HEAD /s/{secret}/content": [200, 200, 200, 200, 200, 200, 200],
        "POST /s/{secret}/content": [200, 200, 200, 200, 200, 200, 200],
        // The rights of the own token, and the account's tokens and devices.
        "GET /v1/rights": [401, 401, 200, 200, 200, 200, 200],
        "GET /v1/usage": [401, 401, 200, 200, 200, 200, 200],
        "GET /v1/tokens": [401, 401, 200, 200, 403, 403, 200],
        "POST /v1/tokens": [401, 401, 201, 201, 403, 403, 201],
        "DELETE /v1/tokens/{token}": [401, 401, 404, 204, 403, 403, 404],
        "GET /v1/devices": [401, 401, 200, 200, 403, 403, 200],
        "DELETE /v1/devices/{device}": [401, 401, 404, 200, 403, 403, 404],
        // Sign-ins by code. A device without a token asks for one. The code in these requests is unknown.
        "POST /v1/sign-ins": [201, 201, 201, 201, 201, 201, 201],
        "POST /v1/sign-ins/collect": [404, 404, 404, 404, 404, 404, 404],
        "GET /v1/sign-ins": [401, 401, 200, 200, 403, 403, 200],
        "POST /v1/sign-ins/approve": [401, 401, 404, 404, 403, 403, 404],
        "POST /v1/sign-ins/refuse": [401, 401, 404, 404, 403, 403, 404],
        // Pages. At the socket they show all accounts. A client follows redirections, so a success is 200.
        "GET /": [401, 401, 200, 200, 200, 200, 200],
        "GET /sign-in": [200, 200, 200, 200, 200, 200, 200],
        "GET /web/style.css": [200, 200, 200, 200, 200, 200, 200],
        "GET /web/script.js": [200, 200, 200, 200, 200, 200, 200],
        "GET /web/icon.svg": [200, 200, 200, 200, 200, 200, 200],
        "GET /devices": [401, 401, 200, 200, 403, 403, 200],
        "GET /storage": [401, 401, 200, 200, 200, 200, 200],
        "GET /containers/{container}": [401, 401, 200, 200, 403, 200, 200],
        "GET /containers/{container}/search": [401, 401, 200, 200, 403, 200, 200],
        "GET /containers/{container}/conflicts": [401, 401, 200, 200, 403, 200, 200],
        "GET /containers/{container}/trash": [401, 401, 200, 200, 403, 200, 200],
        "GET /containers/{container}/links": [401, 401, 200, 200, 403, 200, 200],
        "GET /containers/{container}/events": [401, 401, 200, 200, 403, 200, 200],
        // Without an item to move.
        "GET /containers/{container}/move": [401, 401, 400, 400, 403, 403, 400],
        "GET /containers/{container}/items/{item}": [401, 401, 404, 200, 403, 200, 404],
        "GET /containers/{container}/items/{item}/conflicts": [401, 401, 404, 200, 403, 200, 404],
        "GET /containers/{container}/items/{item}/content": [401, 401, 404, 200, 403, 200, 404],
        "HEAD /containers/{container}/items/{item}/content": [401, 401, 404, 200, 403, 200, 404],
        // The item is a text: no picture and no folder.
        "GET /containers/{container}/items/{item}/picture": [401, 401, 404, 415, 403, 415, 404],
        "GET /containers/{container}/items/{item}/zip": [401, 401, 404, 409, 403, 409, 404],
        // Forms of pages, without their fields. At the socket they lack the secret of the owner's forms.
        "POST /sign-in": [401, 401, 401, 401, 401, 401, 401],
        "POST /sign-out": [200, 200, 200, 200, 200, 200, 403],
        "POST /devices/remove": [401, 401, 400, 400, 403, 403, 403],
        "POST /tokens": [401, 401, 201, 201, 403, 403, 403],
        "POST /tokens/revoke": [401, 401, 400, 400, 403, 403, 403],
        "POST /containers/{container}/folders": [401, 401, 400, 400, 403, 403, 403],
        "POST /containers/{container}/links/revoke": [401, 401, 400, 400, 403, 403, 403],
        // Alice's item is in the trash by then.
        "POST /containers/{container}/items/{item}/links": [401, 401, 404, 404, 403, 403, 403],
        "POST /containers/{container}/move": [401, 401, 400, 400, 403, 403, 403],
        "POST /containers/{container}/selection": [401, 401, 400, 400, 403, 403, 403],
        // The kind of the body is checked before the form's secret, which is in the body.
        "POST /containers/{container}/upload": [401, 401, 415, 415, 403, 403, 415],
        "POST /containers/{container}/trash/empty": [401, 401, 200, 200, 403, 403, 403],
        "POST /containers/{container}/items/{item}/conflicts/{version}": [401, 401, 400, 400, 403, 403, 403],
        // The item goes into the trash here, and for ever in the next row.
        "POST /containers/{container}/items/{item}/delete": [401, 401, 404, 200, 403, 403, 403],
        "POST /containers/{container}/items/{item}/purge": [401, 401, 404, 200, 403, 403, 403],
        "POST /containers/{container}/items/{item}/rename": [401, 401, 400, 400, 403, 403, 403],
        "POST /containers/{container}/items/{item}/restore": [401, 401, 404, 404, 403, 403, 403],
        "POST /containers/{container}/items/{item}/versions/{version}/restore": [401, 401, 404, 404, 403, 403, 403],
    ]

    private static let item = ItemID(high: 0xA11C_E000_0000_0000, low: 1)
    private static let version = VersionID(high: 0xA11C_E000_0000_0000, low: 2)
    private static let chunk = TestChunks.chunk(Array("the text that only Alice has".utf8))
    /// Not in the path of any request, so no error repeats it.
    private static let secrets = ["secret.txt", "only Alice has"]
    private static let parameters = [
        "container": RunningServer.containerName.name, "item": "\(item)", "version": "\(version)",
        "chunk": "\(chunk.id)", "account": "carol", "token": "spare", "device": "tablet", "link": "1",
    ]

    private static func routes(_ cloud: Cloud) -> [String] {
        CloudServer(
            host: CloudHost(cloud), configuration: CloudServerConfiguration(endpoints: []), logger: Harness.logger
        ).routes
    }

    @Test func everyRouteAnswersEachClientAsTheTableSays() async throws {
        // The clients without a valid token must not be slowed down.
        var rules = ConnectionRules()
        rules.freeSignInFailures = 1000
        try await RealCloud.run(rules: rules) { socket, web, cloud in
            let routes = Self.routes(cloud)
            #expect(Set(routes) == Set(Self.table.keys))
            let tokens = try await prepare(cloud, web)
            let link = try await cloud.links.create(
                LinkRequest(item: Self.item.description), in: RunningServer.containerName, of: "alice")
            let secret = try #require(LinkPath.secret(in: link.path))
            let order = routes.sorted { (Self.rank($0), $0) < (Self.rank($1), $1) }
            for route in order {
                var found = [Int]()
                for client in Client.allCases {
                    let path = route.replacing("{secret}", with: secret)
                    let answer = try await ask(path, client, tokens, web, socket)
                    found.append(answer.status)
                    guard client != .owner, client != .readOnly, !route.contains("{secret}") else { continue }
                    let text = String(decoding: answer.bytes, as: UTF8.self)
                    let seen = Self.secrets.filter { text.contains($0) }
                    #expect(seen == [], "\(route) for \(client)")
                }
                #expect(found == Self.table[route], "\(route)")
            }
        }
    }

    /// Routes that delete come last, and after them the forms of the pages, which delete too. The last one deletes all
    /// items of the container.
    private static func rank(_ route: String) -> Int {
        if route == "DELETE /v1/containers/{container}" { return 3 }
        if route.hasPrefix("DELETE") { return 1 }
        return route.hasPrefix("POST /") && !route.hasPrefix("POST /v1/") && !route.hasPrefix("POST /s/") ? 2 : 0
    }

    /// Alice has a file, Bob an empty container, Carol an account to delete.
    private func prepare(_ cloud: Cloud, _ web: CloudAddress) async throws -> [Client: String] {
        let alice = try await cloud.createAccount("alice"), bob = try await cloud.createAccount("bob")
        _ = try await cloud.createAccount("carol")
        let client = try RealCloud.client(web, token: alice, device: 1)
        _ = try await client.open()
        let content = ContentChange(
            version: Self.version, baseVersion: nil, size: Int64(Self.chunk.bytes.count),
            manifest: [ChunkReference(id: Self.chunk.id, length: Self.chunk.bytes.count)])
        let fields = ChangedFields(
            place: Place(parent: .root, name: try ItemName("secret.txt")), mode: 0o644, createdAt: .zero,
            modifiedAt: .zero, content: content)
        _ = try await client.commit(
            CommitRequest(
                id: RequestID(high: 1, low: 1), device: DeviceID(high: 9, low: 1), deviceName: "laptop",
                changes: [
                    ItemChange(
                        id: Self.item, kind: .file, baseRevision: .zero, changedAt: .zero, action: .put(fields))
                ], chunks: [Self.chunk]))
        await client.shutdown()
        for account in ["bob", Cloud.localAccount] {
            _ = try await cloud.service(account: account, container: RunningServer.containerName).open()
        }
        let other = try await cloud.tokens.create(of: "alice", TokenRequest(containers: ["other"]))
        let reading = try await cloud.tokens.create(of: "alice", TokenRequest(readOnly: true))
        _ = try await cloud.tokens.create(of: "alice", TokenRequest(name: "spare"))
        await cloud.devices.record(
            DeviceContact(device: DeviceID(high: 9, low: 77), name: "tablet"), of: TokenHolder(account: "alice"))
        return [
            .wrongToken: String(alice.reversed()), .otherAccount: bob, .owner: alice, .otherContainer: other.token,
            .readOnly: reading.token,
        ]
    }

    private func ask(
        _ route: String, _ client: Client, _ tokens: [Client: String], _ web: CloudAddress, _ socket: CloudAddress
    ) async throws -> (status: Int, bytes: [UInt8]) {
        let words = route.split(separator: " ").map(String.init)
        var path = words[1]
        for (name, value) in Self.parameters { path = path.replacing("{\(name)}", with: value) }
        #expect(!path.contains("{"), "a value for each parameter")
        var request = HTTPClientRequest(url: Plain.base(client == .socket ? socket : web) + path)
        request.method = HTTPMethod(rawValue: words[0])
        if let token = tokens[client] { request.headers.add(name: "authorization", value: "Bearer \(token)") }
        if let (type, body) = try body(of: route, client) {
            request.headers.add(name: "content-type", value: type)
            request.body = .bytes(ByteBuffer(bytes: body))
        }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(20))
        // A stream of events has no end.
        guard !path.hasSuffix("/events") else { return (Int(response.status.code), []) }
        let bytes = try await response.body.collect(upTo: 1 << 20)
        return (Int(response.status.code), Array(bytes.readableBytesView))
    }

    private func body(of route: String, _ client: Client) throws -> (type: String, bytes: [UInt8])? {
        let protobuf = WireFormat.protobuf.mediaType
        switch route {
        case "POST /v1/containers/{container}/links":
            return ("application/json", Array("{\"item\":\"\(Self.item)\"}".utf8))
        case "POST /v1/sign-ins": return ("application/json", Array(#"{"account":"alice","device":"phone"}"#.utf8))
        case "POST /v1/sign-ins/collect": return ("application/json", Array(#"{"secret":"0"}"#.utf8))
        case "POST /v1/sign-ins/approve", "POST /v1/sign-ins/refuse":
            return ("application/json", Array(#"{"code":"BBBB-BBBB"}"#.utf8))
        case "POST /v1/tokens": return ("application/json", Array("{}".utf8))
        case "PUT /v1/containers/{container}":
            return ("application/json", Array(#"{"displayName":"Notes"}"#.utf8))
        case "PUT /v1/accounts/{account}": return ("application/json", Array(#"{"quota":1000}"#.utf8))
        case "POST /v1/accounts": return ("application/json", Array(#"{"name":"dave"}"#.utf8))
        case "POST /v1/containers/{container}/kv":
            let device = DeviceID(high: 9, low: 50)
            let entry = KeyValueEntry(
                value: try PropertyValue.bool(true).encoded(), stamp: KeyValueStamp(time: 1, device: device),
                deviceName: "x", mark: 1)
            let change = KeyValueChange(store: .standard, key: try KeyValueKey("k"), entry: entry, seen: 0)
            let push = KeyValuePush(device: device, sentAt: .zero, changes: [change])
            return ("application/json", Array(try JSONEncoder().encode(KeyValuePushMessage(push))))
        case "POST /v1/containers/{container}/chunks":
            return (WireFormat.chunkMediaType, ChunkFrame.encode(TestChunks.chunk([1])))
        case let route where route.contains("/chunks/") && route.hasPrefix("POST"):
            return (protobuf, try WireCodec.encode(ChunkIDs([Self.chunk.id]), as: .protobuf))
        case "POST /v1/containers/{container}/commit":
            // An item of Alice, which is unknown to everybody else.
            let change = ItemChange(
                id: Self.item, kind: .file, baseRevision: Revision(1), changedAt: .zero,
                action: .put(ChangedFields(mode: 0o600)))
            let position = UInt64(Client.allCases.firstIndex(of: client) ?? 0)
            let request = CommitRequest(
                id: RequestID(high: 2, low: position), device: DeviceID(high: 9, low: 5 + position), deviceName: "x",
                changes: [change])
            return (protobuf, try WireCodec.encode(request, as: .protobuf))
        default: return nil
        }
    }
}
