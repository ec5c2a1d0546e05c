import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Answers to visitors of links: pages, contents, ranges, guesses, ended links. PU-02, PU-04, PU-05, PU-07.
@Suite struct LinkPageTests {
    private static let text = Array("0123456789 the text of a published file".utf8)
    private static let chunk = TestChunks.chunk(text)
    private static let html = TestChunks.chunk(Array("<script>alert(document.domain)</script>".utf8))
    private static let container = RunningServer.containerName
    private static let modified = Timestamp(seconds: 1_700_000_000, nanoseconds: 0)

    private struct Site {
        var web: CloudAddress
        var cloud: Cloud

        func link(
            _ item: UInt64, lifetime: Double? = nil, password: String? = nil
        ) async throws -> (path: String, id: String) {
            let request = LinkRequest(
                item: ItemID(high: 5, low: item).description, lifetime: lifetime, password: password)
            let new = try await cloud.links.create(request, in: container, of: "alice", passwordRounds: 2)
            return (new.path, new.link.id)
        }

        func send(
            _ method: HTTPMethod, _ path: String, _ headers: HTTPHeaders = [:], body: String? = nil
        ) async throws -> Plain.Answer {
            var request = HTTPClientRequest(url: Plain.base(web) + path)
            request.method = method
            request.headers = headers
            if let body { request.body = .bytes(ByteBuffer(string: body)) }
            let response = try await HTTPClient.shared.execute(request, timeout: .seconds(20))
            let bytes = try await response.body.collect(upTo: 1 << 24)
            return Plain.Answer(
                status: Int(response.status.code), headers: response.headers, bytes: Array(bytes.readableBytesView))
        }
    }

    private func run(
        at time: ShiftedTime = ShiftedTime(), guesses: Int = 1000, _ body: (Site) async throws -> Void
    ) async throws {
        var rules = ConnectionRules()
        rules.freeSignInFailures = guesses
        // No pause ends during the test.
        rules.uptime = { .zero }
        try await RealCloud.run(at: time, rules: rules) { _, web, cloud in
            _ = try await cloud.createAccount("alice")
            let service = try await cloud.service(account: "alice", container: Self.container)
            _ = try await service.open()
            let folder = ItemID(high: 5, low: 3)
            _ = try await service.commit(
                CommitRequest(
                    id: RequestID(high: 1, low: 1), device: DeviceID(high: 9, low: 1), deviceName: "alices laptop",
                    changes: [
                        Self.put(1, "Größe.txt", Self.chunk), Self.put(2, "page.html", Self.html),
                        Self.folder(3, "Trip"), Self.put(4, "a.txt", Self.chunk, in: folder),
                        Self.put(5, "b.html", Self.html, in: folder),
                    ], chunks: [Self.chunk, Self.html]))
            try await body(Site(web: web, cloud: cloud))
        }
    }

    private static func put(
        _ id: UInt64, _ name: String, _ chunk: Chunk, in folder: ItemID = .root
    ) throws -> ItemChange {
        let content = ContentChange(
            version: VersionID(high: 6, low: id), baseVersion: nil, size: Int64(chunk.bytes.count),
            manifest: [ChunkReference(id: chunk.id, length: chunk.bytes.count)])
        let fields = ChangedFields(
            place: Place(parent: folder, name: try ItemName(name)), mode: 0o644, createdAt: modified,
            modifiedAt: modified, content: content)
        return ItemChange(
            id: ItemID(high: 5, low: id), kind: .file, baseRevision: .zero, changedAt: modified, action: .put(fields))
    }

    private static func folder(_ id: UInt64, _ name: String) throws -> ItemChange {
        let fields = ChangedFields(
            place: Place(parent: .root, name: try ItemName(name)), mode: 0o755, createdAt: modified,
            modifiedAt: modified)
        return ItemChange(
            id: ItemID(high: 5, low: id), kind: .directory, baseRevision: .zero, changedAt: modified,
            action: .put(fields))
    }

    // MARK: Pages and contents

    /// PU-05, PU-07.
    @Test func pageShowsNameSizeAndTimeAndNoAccount() async throws {
        try await run { site in
            let link = try await site.link(1)
            let page = try await site.send(.GET, link.path)
            #expect(page.status == 200)
            for text in ["Größe.txt", "39", "2023-11-14 22:13:20 UTC", "\(link.path)/content"] {
                #expect(page.text.contains(text), "\(text)")
            }
            for secret in ["alice", "laptop", "<script", "revision"] { #expect(!page.text.contains(secret)) }
            let policy = page.headers.first(name: "content-security-policy") ?? ""
            #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
            #expect(page.headers.first(name: "referrer-policy") == "no-referrer")
            let head = try await site.send(.HEAD, link.path)
            #expect(head.status == 200 && head.bytes.isEmpty)
        }
    }

    @Test func contentIsSavedAndNeverRunInThePagesOrigin() async throws {
        try await run { site in
            let link = try await site.link(2)
            let answer = try await site.send(.GET, link.path + "/content")
            #expect(answer.status == 200 && answer.bytes == Self.html.bytes)
            #expect(answer.headers.first(name: "content-type") == "application/octet-stream")
            #expect(answer.headers.first(name: "x-content-type-options") == "nosniff")
            #expect(answer.headers.first(name: "content-disposition")?.hasPrefix("attachment; filename=") == true)
            #expect(answer.headers.first(name: "content-security-policy")?.hasPrefix("sandbox;") == true)
            #expect(answer.headers.first(name: "content-length") == "\(Self.html.bytes.count)")
            let listed = try await site.cloud.links.list(in: Self.container, of: "alice")
            #expect(listed.map(\.downloads) == [1])
        }
    }

    @Test func namesInHeadersAreEncoded() {
        #expect(
            DownloadHeaders.disposition("a\"b\\Größe\r\n.txt")
                == "attachment; filename=\"a_b_Gr__e__.txt\"; filename*=UTF-8''a%22b%5cGr%c3%b6%c3%9fe%0d%0a.txt")
    }

    @Test func folderIsAZipOfTheAnnouncedLength() async throws {
        try await run { site in
            let link = try await site.link(3)
            let head = try await site.send(.HEAD, link.path + "/content")
            let answer = try await site.send(.GET, link.path + "/content")
            #expect(answer.status == 200 && answer.headers.first(name: "content-type") == "application/zip")
            #expect(head.headers.first(name: "content-length") == "\(answer.bytes.count)")
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).zip")
            try Data(answer.bytes).write(to: file)
            defer { try? FileManager.default.removeItem(at: file) }
            let process = Process(), pipe = Pipe()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["unzip", "-p", file.path, "Trip/a.txt"]
            process.standardOutput = pipe
            try process.run()
            let output = pipe.fileHandleForReading.readDataToEndOfFile()
            process.waitUntilExit()
            #expect(Array(output) == Self.text && process.terminationStatus == 0)
        }
    }

    // MARK: Ranges and conditions

    /// Range, status, and the bytes of the answer.
    private static let ranges: [(range: String, status: Int, bytes: Range<Int>?)] = [
        ("bytes=0-3", 206, 0..<4), ("bytes=5-", 206, 5..<39), ("bytes=-4", 206, 35..<39), ("bytes=0-999", 206, 0..<39),
        ("bytes=-999", 206, 0..<39), ("bytes=39-", 416, nil), ("bytes=9-2", 416, nil), ("bytes=a-b", 416, nil),
        ("bytes=-", 416, nil), ("bytes=99999999999999999999-", 416, nil), ("bytes=-0", 416, nil),
        ("chunks=0-3", 200, 0..<39), ("bytes=0-1,3-4", 200, 0..<39), ("bytes", 416, nil),
    ]

    @Test func rangesAreServedOrRefused() async throws {
        try await run { site in
            let link = try await site.link(1)
            for (range, status, bytes) in Self.ranges {
                let answer = try await site.send(.GET, link.path + "/content", ["range": range])
                #expect(answer.status == status, "\(range)")
                if let bytes { #expect(answer.bytes == Array(Self.text[bytes]), "\(range)") }
            }
            let none = try await site.send(.GET, link.path + "/content", ["range": "bytes=0-3", "if-range": "\"x\""])
            #expect(none.status == 200)
        }
    }

    @Test func conditionsAreObserved() async throws {
        try await run { site in
            let path = try await site.link(1).path + "/content"
            let first = try await site.send(.GET, path)
            let tag = try #require(first.headers.first(name: "etag"))
            #expect(first.headers.first(name: "last-modified") == "Tue, 14 Nov 2023 22:13:20 GMT")
            let conditions: [(HTTPHeaders, Int)] = [
                (["if-none-match": tag], 304), (["if-none-match": "\"a\", W/\(tag)"], 304),
                (["if-none-match": "*"], 304),
                (["if-none-match": "\"a\""], 200), (["if-match": tag], 200), (["if-match": "\"a\""], 412),
                (["if-modified-since": "Tue, 14 Nov 2023 22:13:20 GMT"], 304),
                (["if-modified-since": "Tue, 14 Nov 2023 22:13:19 GMT"], 200),
                (["if-modified-since": "yesterday"], 200),
                (["if-unmodified-since": "Tue, 14 Nov 2023 22:13:19 GMT"], 412),
                (["range": "bytes=0-3", "if-range": tag], 206),
            ]
            for (headers, status) in conditions {
                #expect(try await site.send(.GET, path, headers).status == status, "\(headers)")
            }
        }
    }

    // MARK: Passwords, guesses, ends

    @Test func passwordOpensTheContentByFormAndByHeader() async throws {
        try await run { site in
            let link = try await site.link(1, password: "a&b ä"), path = link.path + "/content"
            #expect(try await site.send(.GET, link.path).text.contains("type=\"password\""))
            #expect(try await site.send(.GET, path).status == 401)
            let form: HTTPHeaders = ["content-type": "application/x-www-form-urlencoded"]
            #expect(try await site.send(.POST, path, form, body: "password=wrong").status == 401)
            #expect(try await site.send(.POST, path, form, body: "x=y").status == 401)
            let answer = try await site.send(.POST, path, form, body: "password=a%26b+%C3%A4")
            #expect(answer.status == 200 && answer.bytes == Self.text)
            let basic = Data("me:a&b ä".utf8).base64EncodedString()
            let part = try await site.send(.GET, path, ["authorization": "Basic \(basic)", "range": "bytes=0-3"])
            #expect(part.status == 206 && part.bytes == Array(Self.text[0..<4]))
            #expect(try await site.send(.GET, path, ["authorization": "Basic ???"]).status == 400)
        }
    }

    @Test func guessesOfPasswordsAndSecretsAreSlowedDown() async throws {
        try await run(guesses: 3) { site in
            let link = try await site.link(1, password: "right"), path = link.path + "/content"
            let known = try await site.link(2)
            #expect(try await site.send(.GET, known.path).status == 200)
            var statuses = [Int]()
            for number in 0..<6 {
                let basic = Data("x:guess \(number)".utf8).base64EncodedString()
                statuses.append(try await site.send(.GET, path, ["authorization": "Basic \(basic)"]).status)
            }
            #expect(statuses == [401, 401, 401, 401, 429, 429])
            let guess = try await site.send(.GET, "/s/" + String(repeating: "0", count: 32))
            #expect(guess.status == 429 && guess.headers.first(name: "retry-after") != nil)
            // A visitor of a link that was opened before is not affected.
            #expect(try await site.send(.GET, known.path + "/content").status == 200)
        }
    }

    /// The path after "/s/", and the status.
    private static let hostile: [(String, Int)] = [
        ("", 404), ("0", 404), (String(repeating: "0", count: 32), 404), (String(repeating: "z", count: 32), 404),
        (String(repeating: "0", count: 4000), 404), ("..%2f..%2fv1%2faccounts", 404), ("%00", 404),
        ("' OR 1=1 --", 404),
        ("%27%20OR%201=1", 404),
    ]

    @Test func hostilePathsFindNothing() async throws {
        try await run { site in
            let link = try await site.link(1)
            for (path, status) in Self.hostile {
                let encoded = path.replacing(" ", with: "%20").replacing("'", with: "%27")
                #expect(try await site.send(.GET, "/s/\(encoded)").status == status, "\(path)")
                #expect(try await site.send(.GET, "/s/\(encoded)/content").status == status, "\(path)")
            }
            // Traversal below a link, and methods that would write.
            for path in ["/content/..%2f..", "/content/a.txt", "/../../v1/accounts", "/files"] {
                #expect(try await site.send(.GET, link.path + path).status != 200, "\(path)")
            }
            for method: HTTPMethod in [.PUT, .DELETE, .PATCH] {
                #expect(try await site.send(method, link.path + "/content").status >= 400)
            }
            // Upper-case digits are the same secret.
            #expect(try await site.send(.GET, "/s/" + link.path.dropFirst(3).uppercased()).status == 200)
        }
    }

    /// PU-04.
    @Test func endedLinksAreGone() async throws {
        let time = ShiftedTime()
        try await run(at: time, guesses: 2) { site in
            let expiring = try await site.link(1, lifetime: 60), revoked = try await site.link(1)
            try await site.cloud.links.revoke(revoked.id, in: Self.container, of: "alice")
            // Visits of an ended link are no guesses.
            for _ in 0..<6 { #expect(try await site.send(.GET, revoked.path).status == 410) }
            #expect(try await site.send(.GET, expiring.path + "/content").status == 200)
            time.shift.withLock { $0 = 61 }
            #expect(try await site.send(.GET, expiring.path + "/content").status == 410)
        }
    }
}
