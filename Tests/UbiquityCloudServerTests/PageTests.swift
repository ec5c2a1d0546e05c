import AsyncHTTPClient
import FoundationEssentials
import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// The cloud's pages in a browser.
@Suite struct PageTests {
    private struct Page {
        let status: Int
        let text: String
        let asks: String?
    }

    private func page(_ path: String, at address: CloudAddress, password: String? = nil) async throws -> Page {
        var request = HTTPClientRequest(url: Plain.base(address) + path)
        if let password {
            let credentials = Data("me:\(password)".utf8).base64EncodedString()
            request.headers.add(name: "authorization", value: "Basic \(credentials)")
        }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(20))
        #expect(response.headers.first(name: "content-type") == "text/html; charset=utf-8")
        #expect(response.headers.first(name: "content-security-policy")?.hasPrefix("default-src 'none'") == true)
        let bytes = try await response.body.collect(upTo: 1 << 24)
        return Page(
            status: Int(response.status.code), text: String(buffer: bytes),
            asks: response.headers.first(name: "www-authenticate"))
    }

    private static let script = "<img src=x onerror='alert(1)'>&\".txt"
    private static let shown = "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;.txt"

    private func file(_ number: UInt64, _ name: String, in parent: ItemID = .root) throws -> ItemChange {
        let content = ContentChange(
            version: VersionID(high: 6, low: number), baseVersion: nil, size: 0, manifest: [])
        let attribute = Xattr(name: Array("user.note".utf8), value: Array("<b>".utf8))
        let fields = ChangedFields(
            place: Place(parent: parent, name: try ItemName(name)), mode: 0o644, createdAt: .zero,
            modifiedAt: Timestamp(seconds: 86_400), xattrsSet: [attribute], content: content)
        return ItemChange(
            id: ItemID(high: 5, low: number), kind: .file, baseRevision: .zero, changedAt: .zero, action: .put(fields))
    }

    private func folder(_ number: UInt64, _ name: String) throws -> ItemChange {
        let fields = ChangedFields(
            place: Place(parent: .root, name: try ItemName(name)), mode: 0o755, createdAt: .zero, modifiedAt: .zero)
        return ItemChange(
            id: ItemID(high: 5, low: number), kind: .directory, baseRevision: .zero, changedAt: .zero,
            action: .put(fields))
    }

    private func commit(_ number: UInt64, _ changes: [ItemChange], _ client: CloudClient) async throws {
        _ = try await client.commit(
            CommitRequest(
                id: RequestID(high: 7, low: number), device: DeviceID(high: 9, low: 1), deviceName: "lap<top>",
                changes: changes, number: Int64(number)))
    }

    @Test func accountsItemsVersionsAndDevicesAreShown() async throws {
        try await RealCloud.run { socket, web, cloud in
            let token = try await cloud.createAccount("alice")
            _ = try await cloud.createAccount("bob")
            let client = try RealCloud.client(web, token: token, device: 1)
            _ = try await client.open()
            let inner = ItemID(high: 5, low: 1)
            try await commit(1, [folder(1, "a b"), file(2, Self.script, in: inner), file(3, "gone")], client)
            try await commit(
                2, [ItemChange(
                    id: ItemID(high: 5, low: 3), kind: .file, baseRevision: Revision(1), changedAt: .zero,
                    action: .delete)], client)
            await client.shutdown()

            let mine = try await page("/", at: web, password: token)
            #expect(mine.status == 200 && mine.text.contains("Account alice") && !mine.text.contains("bob"))
            #expect(mine.text.contains("lap&lt;top&gt;"))
            #expect(mine.text.contains("<td>2</td>"))  // items
            let top = try await page("/containers/default", at: web, password: token)
            #expect(top.text.contains("a b") && !top.text.contains("gone"))
            let inside = try await page("/containers/default?folder=\(inner)", at: web, password: token)
            #expect(inside.text.contains(Self.shown) && !inside.text.contains("<img"))
            let item = try await page("/containers/default/items/\(ItemID(high: 5, low: 2))", at: web, password: token)
            #expect(item.text.contains("<td>current</td>") && item.text.contains("&lt;b&gt;"))
            #expect(item.text.contains("1970-01-02T00:00:00"))
            #expect(try await page("/containers/default/trash", at: web, password: token).text.contains("gone"))
            let calm = try await page("/containers/default/conflicts", at: web, password: token)
            #expect(calm.text.contains("Nothing is in conflict"))
            // The owner, who alone can open the socket, sees all accounts.
            let all = try await page("/", at: socket)
            #expect(all.text.contains("alice") && all.text.contains("bob"))
            #expect(try await page("/containers/default?account=alice", at: socket).text.contains("a b"))
        }
    }

    @Test func accountsDoNotSeeEachOthersPages() async throws {
        try await RealCloud.run { socket, web, cloud in
            let (alice, bob) = (try await cloud.createAccount("alice"), try await cloud.createAccount("bob"))
            let client = try RealCloud.client(web, token: alice, device: 1)
            _ = try await client.open()
            try await commit(1, [folder(1, "hers")], client)
            await client.shutdown()
            for password in [nil, "", "wrong"] {
                let refused = try await page("/", at: web, password: password)
                #expect(refused.status == 401 && refused.asks?.hasPrefix("Basic ") == true)
                #expect(!refused.text.contains("alice"))
            }
            // Whatever account is named, the token's account is shown.
            let other = try await page("/containers/default?account=alice", at: web, password: bob)
            #expect(other.status == 404 && !other.text.contains("hers"))
            #expect(try await page("/containers/..%2F", at: web, password: bob).status == 400)
            #expect(try await page("/containers/default/items/12", at: web, password: alice).status == 400)
            let none = "/containers/default/items/\(ItemID(high: 1, low: 1))"
            #expect(try await page(none, at: web, password: alice).status == 404)
            // Viewing creates nothing.
            #expect(try await page("/containers/made", at: socket).status == 404)
            #expect(try await !page("/", at: socket).text.contains("made"))
        }
    }

    @Test func longFoldersHaveSeveralPages() async throws {
        try await RealCloud.run { socket, _, cloud in
            let client = try RealCloud.client(socket, device: 1)
            _ = try await client.open()
            try await commit(1, (0..<700).map { try file(100 + $0, "file \(1000 + $0)") }, client)
            await client.shutdown()
            let first = try await page("/containers/default", at: socket)
            #expect(first.text.contains("file 1000") && first.text.contains("file 1499"))
            #expect(!first.text.contains("file 1500<"))
            let link = try #require(first.text.split(separator: "\"").first { $0.contains("after=") })
            let second = try await page(String(link).replacing("&amp;", with: "&"), at: socket)
            #expect(second.text.contains("file 1500") && second.text.contains("file 1699"))
            #expect(!second.text.contains("file 1499<"))
        }
    }
}
