import Testing
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore

/// Forms from other sites are refused, and fields are decoded.
@Suite struct WebFormTests {
    /// The routes come from the router: a new form is tested without a change here.
    @Test func everyFormRefusesAForeignToken() async throws {
        try await PlainBrowser.runSignedIn { browser, device, cloud in
            let item = try #require(try await WebFixture(device).make([("a.txt", "a")]).first)
            let routes = CloudServer(
                host: CloudHost(cloud), configuration: CloudServerConfiguration(endpoints: []), logger: Harness.logger
            ).routes.filter { $0.hasPrefix("POST /") && !$0.hasPrefix("POST /v1/") && !$0.hasPrefix("POST /s/") }
                .filter { $0 != "POST /sign-in" }
            #expect(routes.count >= 15)
            for route in routes {
                var path = String(route.dropFirst(5))
                for (name, value) in [("container", "default"), ("item", "\(item)"), ("version", "\(item)")] {
                    path = path.replacing("{\(name)}", with: value)
                }
                let isUpload = path.hasSuffix("/upload")
                let foreign = isUpload ? try await browser.upload([("b.txt", [1])], isOwn: false)
                    : try await browser.post(path, [("name", "x"), ("form-token", "guess")], isOwn: false)
                #expect(foreign.status == 403, "\(route)")
                guard !isUpload else { continue }
                let site = try await browser.post(path, [("name", "x")], [("sec-fetch-site", "cross-site")])
                #expect(site.status == 403, "\(route)")
            }
            let items = try await WebFixture(device).items()
            #expect(items.map(\.name.description) == ["a.txt"] && items.first?.isDeleted == false)
        }
    }

    @Test func fieldsAreDecoded() throws {
        let form = try WebForm(encoded: "a=1+2%2B3&b=%C3%A4&b=x&c")
        #expect(form["a"] == "1 2+3" && form.all("b") == ["ä", "x"] && form["c"] == nil)
        #expect(throws: UbiquityError.self) { try WebForm(encoded: "a=%zz") }
        #expect(throws: UbiquityError.self) { try WebForm(encoded: "a=%ff") }
        #expect(throws: UbiquityError.self) { try WebForm(encoded: String(repeating: "a=1&", count: 2000)) }
        for name in ["..", "a/b", "", ".versions", String(repeating: "x", count: 256)] {
            #expect(throws: UbiquityError.self) { try WebForm.name(name) }
        }
    }

    // MARK: Uploads

    /// The second content has line ends, hyphens and the beginning of a boundary.
    private static let body = Array(
        ("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n"
            + "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"b%22.txt\"\r\n\r\n-\r\n--\r\n\r\n"
            + "--x--\r\n").utf8)

    /// However the bytes arrive, the parts are the same.
    @Test(arguments: [1, 2, 3, 7, 64, 1000]) func partsAreFoundInPieces(_ length: Int) throws {
        var parser = try MultipartParser(contentType: "multipart/form-data; boundary=x")
        var names = [String?](), contents = [[UInt8]](), body = Self.body[...]
        while !body.isEmpty {
            for event in try parser.add(body.prefix(length)) {
                switch event {
                case .part(_, let file):
                    names.append(file)
                    contents.append([])
                case .bytes(let bytes): contents[contents.count - 1] += bytes
                case .endOfPart: continue
                }
            }
            body = body.dropFirst(length)
        }
        try parser.finish()
        #expect(names == [nil, "b\".txt"])
        #expect(contents.map { String(decoding: $0, as: UTF8.self) } == ["1", "-\r\n--\r\n"])
    }

    @Test func brokenUploadsAreRefused() throws {
        #expect(throws: UbiquityError.self) { try MultipartParser(contentType: "text/plain") }
        #expect(throws: UbiquityError.self) { try MultipartParser(contentType: nil) }
        #expect(throws: UbiquityError.self) { try MultipartParser(contentType: "multipart/form-data; boundary=") }
        var cut = try MultipartParser(contentType: "multipart/form-data; boundary=x")
        _ = try cut.add(Self.body.dropLast(12))
        #expect(throws: UbiquityError.self) { try cut.finish() }
        var long = try MultipartParser(contentType: "multipart/form-data; boundary=\"x\"")
        #expect(throws: UbiquityError.self) {
            _ = try long.add(Array("--x\r\n".utf8) + Array(repeating: UInt8(ascii: "a"), count: 20_000))
        }
    }
}
