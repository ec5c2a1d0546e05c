import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// Uploads and downloads: their bytes, their limits, and that no content runs in the origin of the pages.
@Suite struct WebContentTests {
    private static let root = "/containers/default"

    private static func bytes(_ count: Int) -> [UInt8] {
        var number: UInt64 = 42
        return (0..<count).map { _ in
            number = number &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: number >> 33)
        }
    }

    @Test func uploadedFilesComeBackUnchanged() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device), large = Self.bytes(1_500_000)
            let page = try await browser.upload([("large.bin", large), ("empty.txt", []), ("ü %22q%22.txt", [65])])
            #expect(page.status == 303 && page.location == "\(Self.root)?done=uploaded")
            let items = try await fixture.items()
            #expect(items.map(\.name.description) == ["empty.txt", "large.bin", "ü \"q\".txt"])
            let id = try #require(try await fixture.live("large.bin")).id
            let path = "\(Self.root)/items/\(id)/content"
            let download = try await browser.get(path)
            #expect(download.status == 200 && download.bytes == large)
            #expect(download.headers.first(name: "content-length") == "1500000")
            let part = try await browser.get(path, [("range", "bytes=700000-1200000")])
            #expect(part.status == 206 && part.bytes == Array(large[700_000...1_200_000]))
            #expect(part.headers.first(name: "content-range") == "bytes 700000-1200000/1500000")
            let tag = try #require(download.headers.first(name: "etag"))
            #expect(try await browser.get(path, [("if-none-match", tag)]).status == 304)
            let stale = try await browser.get(path, [("range", "bytes=0-9"), ("if-range", "\"old\"")])
            #expect(stale.status == 200 && stale.bytes.count == large.count)
            #expect(try await browser.get(path, [("range", "bytes=9999999-")]).status == 416)
        }
    }

    @Test func sameNameIsNumberedOrReplaced() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let id = try #require(try await fixture.make([("a.txt", "old")]).first)
            try await browser.upload([("a.txt", Array("second".utf8))])
            #expect(try await fixture.text(of: id) == "old")
            #expect(try await fixture.live("a 2.txt") != nil)
            try await browser.upload([("a.txt", Array("new".utf8))], fields: [("replace", "1")])
            #expect(try await fixture.text(of: id) == "new")
            // A device still has the earlier version.
            #expect(try await device.versions(of: id).count == 2)
        }
    }

    @Test func uploadBeyondTheQuotaIsRefused() async throws {
        try await PlainBrowser.runSignedIn { browser, device, cloud in
            try await cloud.setQuota(100_000, of: "alice")
            let page = try await browser.upload([("big.bin", Self.bytes(200_000))])
            #expect(page.status == 507 && page.text.contains("The account is full"))
            #expect(try await WebFixture(device).items().isEmpty)
        }
    }

    @Test func brokenUploadMakesNoFile() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let above = try await browser.upload([("a/..", [1])])
            #expect(above.status == 400)
            #expect(try await browser.upload([("", [1])]).status == 303)
            let path = "\(Self.root)/upload"
            #expect(try await browser.post(path, [("a", "b")]).status == 415)
            #expect(try await WebFixture(device).items().isEmpty)
        }
    }

    /// A user's HTML or SVG is never run in the origin of the pages.
    @Test(arguments: ["page.html", "drawing.svg", "page.xhtml", "script.js", "notes.txt"])
    func contentIsAnAttachmentInASandbox(_ name: String) async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let text = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
            let id = try #require(try await WebFixture(device).make([(name, text)]).first)
            let page = try await browser.get("\(Self.root)/items/\(id)/content")
            #expect(page.text == text)
            #expect(page.headers.first(name: "content-type") == "application/octet-stream")
            let disposition = page.headers.first(name: "content-disposition")
            #expect(disposition?.hasPrefix("attachment; filename=\"\(name)\"") == true)
            let policy = page.headers.first(name: "content-security-policy")
            #expect(policy?.hasPrefix("sandbox; default-src 'none'") == true)
            #expect(page.headers.first(name: "x-content-type-options") == "nosniff")
            #expect(page.headers.first(name: "cross-origin-resource-policy") == "same-origin")
            // It is no picture, whatever its name is.
            #expect(try await browser.get("\(Self.root)/items/\(id)/picture").status == 415)
        }
    }

    @Test func pictureHasTheTypeOfItsBytes() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13]
            try await browser.upload([("a.html", png), ("b.png", Array("<html>".utf8))])
            let fixture = WebFixture(device)
            let first = try #require(try await fixture.live("a.html"))
            let second = try #require(try await fixture.live("b.png"))
            let page = try await browser.get("\(Self.root)/items/\(first.id)/picture")
            #expect(page.status == 200 && page.headers.first(name: "content-type") == "image/png")
            #expect(page.headers.first(name: "content-security-policy")?.hasPrefix("sandbox;") == true)
            #expect(try await browser.get("\(Self.root)/items/\(second.id)/picture").status == 415)
            // The list shows a thumbnail made from the file.
            #expect(try await browser.get(Self.root).text.contains("/items/\(second.id)/picture?version="))
        }
    }

    @Test func folderIsDownloadedAsZip() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let folder = try #require(try await fixture.make([("Trip/", ""), ("other", "x")]).first)
            try await fixture.make([("plan.txt", "Meet at nine."), ("photos/", "")], in: folder)
            let page = try await browser.get("\(Self.root)/items/\(folder)/zip")
            #expect(page.status == 200 && page.headers.first(name: "content-type") == "application/zip")
            #expect(page.headers.first(name: "content-length") == "\(page.bytes.count)")
            #expect(page.headers.first(name: "content-disposition")?.contains("Trip.zip") == true)
            for part in ["PK\u{3}\u{4}", "Trip/plan.txt", "Meet at nine.", "Trip/photos/"] {
                #expect(page.text.contains(part), "\(part)")
            }
            #expect(!page.text.contains("other"))
            let all = try await browser.get("\(Self.root)/items/\(ItemID.root)/zip")
            #expect(all.status == 200 && all.text.contains("default/other"))
            #expect(all.text.contains("default/Trip/plan.txt"))
        }
    }

    @Test func versionOfAnotherItemIsNotServed() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let ids = try await fixture.make([("a", "a"), ("b", "b")])
            let other = try #require(try await fixture.item(ids[1])?.content?.version)
            #expect(try await browser.get("\(Self.root)/items/\(ids[0])/content?version=\(other)").status == 404)
            #expect(try await browser.get("\(Self.root)/items/\(ids[0])/content?version=zz").status == 400)
        }
    }
}
