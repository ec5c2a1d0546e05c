import AsyncHTTPClient
import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// The content of the pages, and the rights to see it.
@Suite struct WebPageTests {
    private static let script = "<img src=x onerror='alert(1)'>&\".txt"
    private static let shown = "&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;&quot;.txt"

    @Test func namesAndDevicesAreEscaped() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let ids = try await fixture.make([("a b/", ""), (Self.script, "<script>alert(2)</script>")])
            let pages = [
                "/containers/default", "/containers/default/items/\(ids[1])", "/containers/default/search?q=onerror",
                "/containers/default/move?item=\(ids[1])", "/devices", "/storage",
                "/containers/default/search?q=%3Cimg",
            ]
            for path in pages {
                let page = try await browser.get(path)
                #expect(page.status == 200, "\(path)")
                #expect(!page.text.contains("<img src=x") && !page.text.contains("<script>alert"), "\(path)")
                #expect(!page.text.contains("lap<top>"), "\(path)")
            }
            #expect(try await browser.get(pages[0]).text.contains(Self.shown))
            #expect(try await browser.get(pages[1]).text.contains("&lt;script&gt;alert(2)&lt;/script&gt;"))
            #expect(try await browser.get(pages[1]).text.contains("lap&lt;top&gt;"))
        }
    }

    @Test func everyPageHasProtectingHeaders() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let id = try #require(try await WebFixture(device).make([("a.txt", "a")]).first)
            for path in [
                "/", "/sign-in", "/devices", "/storage", "/containers/default", "/containers/default/trash",
                "/containers/default/conflicts", "/containers/default/items/\(id)", "/containers/none",
                "/sign-in?next=x",
            ] {
                let page = try await browser.get(path)
                let policy = try #require(page.headers.first(name: "content-security-policy"), "\(path)")
                #expect(policy.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self'"))
                #expect(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"))
                #expect(page.headers.first(name: "x-content-type-options") == "nosniff")
                #expect(page.headers.first(name: "cache-control") == "no-store")
                // Nothing of a page needs more than its policy allows.
                #expect(!page.text.contains(" style=") && !page.text.contains(" onclick="))
                #expect(!page.text.contains("<style"))
                #expect(!page.text.contains("<script>"), "\(path)")
            }
            for path in [WebAssets.stylePath, WebAssets.scriptPath, WebAssets.iconPath] {
                let asset = try await browser.get(path)
                #expect(asset.status == 200 && asset.headers.first(name: "x-content-type-options") == "nosniff")
                #expect(asset.headers.first(name: "cache-control")?.contains("immutable") == true)
            }
        }
    }

    @Test func accountsDoNotSeeEachOthersPages() async throws {
        try await PlainBrowser.runSignedIn { browser, device, cloud in
            let id = try #require(try await WebFixture(device).make([("hers.txt", "only hers")]).first)
            let bob = try await cloud.createAccount("bob")
            try await browser.signIn(bob, account: "bob")
            for path in [
                "/containers/default", "/containers/default?account=alice", "/containers/default/items/\(id)",
                "/containers/default/items/\(id)/content?account=alice", "/containers/default/items/\(id)/zip",
            ] {
                let page = try await browser.get(path)
                #expect(page.status == 404 && !page.text.contains("hers"), "\(path)")
            }
            #expect(try await browser.get("/containers/..%2F").status == 400)
            #expect(try await browser.post("/containers/default/items/\(id)/delete", []).status == 404)
        }
    }

    @Test func readOnlyTokenShowsNoFormsAndMayNotWrite() async throws {
        try await PlainBrowser.runSignedIn { browser, device, cloud in
            let id = try #require(try await WebFixture(device).make([("a.txt", "a")]).first)
            let reading = try await cloud.tokens.create(
                of: "alice", TokenRequest(containers: ["default"], readOnly: true))
            try await browser.signIn(reading.token)
            let page = try await browser.get("/containers/default/items/\(id)")
            #expect(page.status == 200 && !page.text.contains("/rename") && !page.text.contains("/delete"))
            let folder = try await browser.get("/containers/default")
            #expect(!folder.text.contains("type=\"file\"") && !folder.text.contains("/devices"))
            #expect(try await browser.post("/containers/default/items/\(id)/rename", [("name", "b")]).status == 403)
            #expect(try await browser.upload([("b.txt", [1])]).status == 403)
            #expect(try await browser.get("/devices").status == 403)
            #expect(try await browser.post("/tokens", [("name", "more")]).status == 403)
            #expect(try await browser.get("/containers/other").status == 403)
        }
    }

    @Test func longFoldersHaveSortedPages() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            try await fixture.make((0..<250).map { ("file \(1000 + $0).txt", "") } + [("Zebra/", ""), ("apple/", "")])
            let first = try await browser.get("/containers/default")
            #expect(first.text.contains("Page 1 of 2 · 252 items"))
            let order = ["apple", "Zebra", "file 1000.txt", "file 1197.txt"].map {
                first.text.firstRange(of: "<span class=\"name\">\($0)<")?.lowerBound
            }
            let places = order.compactMap { $0 }
            #expect(places.count == order.count && places == places.sorted())
            #expect(!first.text.contains("file 1198.txt"))
            let second = try await browser.get("/containers/default?page=2")
            #expect(second.text.contains("file 1198.txt") && second.text.contains("file 1249.txt"))
            #expect(try await browser.get("/containers/default?page=0&order=x").status == 200)
            #expect(try await browser.get("/containers/default?order=newest").status == 200)
        }
    }

    @Test func searchFindsNamesInAllFolders() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let folder = try #require(try await fixture.make([("Trip/", ""), ("other.txt", "x")]).first)
            try await fixture.make([("Über den SEE.txt", "lake")], in: folder)
            let page = try await browser.get("/containers/default/search?q=see")
            #expect(page.text.contains("Über den SEE.txt") && page.text.contains("default / Trip"))
            #expect(!page.text.contains("other.txt"))
            #expect(try await browser.get("/containers/default/search?q=%C3%BCBER+den").text.contains("Über den SEE"))
            #expect(try await browser.get("/containers/default/search?q=nothing").text.contains("No name has"))
            #expect(try await browser.get("/containers/default/search?q=%25").text.contains("No name has"))
        }
    }

    @Test("The owner sees all accounts at the socket; a container is one folder of an account (SV-04)")
    func ownerSeesAllAccounts() async throws {
        try await RealCloud.run { socket, web, cloud in
            let token = try await cloud.createAccount("alice")
            _ = try await cloud.createAccount("bob")
            let client = try RealCloud.client(web, token: token, device: 1)
            _ = try await client.open()
            try await WebFixture(client).make([("hers", "x")])
            await client.shutdown()
            let http = PlainBrowser(socket, .shared)
            let all = try await http.get("/")
            #expect(all.text.contains("Account \nalice") || all.text.contains("Account alice"))
            #expect(all.text.contains("bob"))
            let top = try await http.get("/containers/default?account=alice")
            #expect(top.text.contains("hers") && top.text.contains("account=alice"))
            // Viewing creates nothing.
            #expect(try await http.get("/containers/made?account=alice").status == 404)
            // The owner's forms have a secret too: a browser may reach the socket through a tunnel.
            #expect(try await http.post("/containers/default/folders?account=alice", [("name", "x")], isOwn: false)
                .status == 403)
            #expect(try await http.get("/containers/default?account=nobody").status == 404)
        }
    }

    @Test func tokensAndDevicesAreManaged() async throws {
        try await PlainBrowser.runSignedIn { browser, device, cloud in
            try await WebFixture(device).make([("a", "x")])
            let created = try await browser.post("/tokens", [("name", "phone <1>"), ("container", "default")])
            #expect(created.status == 201)
            let secret = try #require(created.value(after: "data-copy=\""))
            let rights = try await cloud.tokens.authenticate(secret).rights
            #expect(rights.containers?.map(\.name) == ["default"])
            #expect(try await browser.get("/devices").text.contains("phone &lt;1&gt;"))
            #expect(try await browser.post("/tokens/revoke", [("token", "phone <1>")]).status == 303)
            await #expect(throws: RevokedToken.self) { try await cloud.tokens.authenticate(secret) }
            let found = try #require(try await cloud.devices.list(of: "alice").first)
            // The browser has the token of the device, so its session ends too.
            #expect(try await browser.post("/devices/remove", [("device", found.id)]).status == 303)
            #expect(try await browser.get("/devices").status == 401)
        }
    }

    @Test func storageShowsABarByContainer() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            try await WebFixture(device).make([("a", String(repeating: "x", count: 5000))])
            let page = try await browser.get("/storage")
            #expect(page.text.contains("<meter") && page.text.contains("4.9 KiB of"))
            #expect(page.text.contains("<rect class=\"live\"") && page.text.contains("Earlier versions: 0 B"))
        }
    }
}
