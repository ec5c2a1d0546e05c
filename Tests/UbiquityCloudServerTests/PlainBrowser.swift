import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// A browser without a script: it keeps a cookie, sends forms and does not follow redirections by itself.
final class PlainBrowser: Sendable {
    struct Page: Sendable {
        let status: Int
        let headers: HTTPHeaders
        let bytes: [UInt8]
        var text: String { String(decoding: bytes, as: UTF8.self) }
        var location: String? { headers.first(name: "location") }

        /// The secret of the page's forms.
        var formToken: String? { value(after: "name=\"form-token\" value=\"") }

        /// The text between this one and the next quotation mark.
        func value(after text: String) -> String? {
            self.text.firstRange(of: text).map { String(self.text[$0.upperBound...].prefix { $0 != "\"" }) }
        }
    }

    private let base: String
    private let http: HTTPClient
    private let state = Lock((cookie: String?.none, formToken: String?.none))

    init(_ address: CloudAddress, _ http: HTTPClient) {
        base = Plain.base(address)
        self.http = http
    }

    /// Runs `body` with a browser at a cloud whose account "alice" has the token.
    static func run(
        rules: ConnectionRules = ConnectionRules(),
        _ body: (_ browser: PlainBrowser, _ token: String, _ web: CloudAddress, Cloud) async throws -> Void
    ) async throws {
        try await RealCloud.run(rules: rules) { _, web, cloud in
            let token = try await cloud.createAccount("alice")
            var configuration = HTTPClient.Configuration.singletonConfiguration
            configuration.redirectConfiguration = .disallow
            let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            do {
                try await body(PlainBrowser(web, http), token, web, cloud)
            } catch {
                try await http.shutdown()
                throw error
            }
            try await http.shutdown()
        }
    }

    /// The same, signed in, with the container `default`.
    static func runSignedIn(
        _ body: (_ browser: PlainBrowser, _ device: CloudClient, Cloud) async throws -> Void
    ) async throws {
        try await run { browser, token, web, cloud in
            let device = try RealCloud.client(web, token: token, device: 1)
            do {
                _ = try await device.open()
                try await browser.signIn(token)
                try await body(browser, device, cloud)
            } catch {
                await device.shutdown()
                throw error
            }
            await device.shutdown()
        }
    }

    var cookie: String? { state.withLock { $0.cookie } }
    func forgetCookie() { state.withLock { $0.cookie = nil } }

    func get(_ path: String, _ headers: [(String, String)] = []) async throws -> Page {
        try await send(.GET, path, headers, nil)
    }

    @discardableResult
    func signIn(_ token: String, account: String = "alice") async throws -> Page {
        let page = try await post("/sign-in", [("account", account), ("token", token)])
        if page.status == 303 { _ = try await get("/") }
        return page
    }

    /// Sends a form of a page of this session.
    /// - Parameter isOwn: whether it has the secret of the session's forms.
    @discardableResult
    func post(
        _ path: String, _ fields: [(String, String)], isOwn: Bool = true, _ headers: [(String, String)] = []
    ) async throws -> Page {
        let token = isOwn ? state.withLock { $0.formToken } : nil
        let all = fields + (token.map { [("form-token", $0)] } ?? [])
        let text = all.map { "\($0)=\(PercentEncoding.encode($1))" }.joined(separator: "&")
        let type = [("content-type", "application/x-www-form-urlencoded")]
        return try await send(.POST, path, type + headers, Array(text.utf8))
    }

    /// Sends files by the form of a folder's page.
    @discardableResult
    func upload(
        _ files: [(name: String, bytes: [UInt8])], fields: [(String, String)] = [], isOwn: Bool = true,
        to path: String = "/containers/default/upload"
    ) async throws -> Page {
        let token = isOwn ? state.withLock { $0.formToken } : nil
        var body = [UInt8]()
        for (name, value) in fields + [("form-token", token ?? "")] {
            body += "--limit\r\nContent-Disposition: form-data; name=\"\(name)\"\r\n\r\n\(value)\r\n".utf8
        }
        for file in files {
            body += "--limit\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\(file.name)\"\r\n".utf8
            body += "Content-Type: application/octet-stream\r\n\r\n".utf8
            body += file.bytes
            body += "\r\n".utf8
        }
        body += "--limit--\r\n".utf8
        return try await send(.POST, path, [("content-type", "multipart/form-data; boundary=limit")], body)
    }

    private func send(
        _ method: HTTPMethod, _ path: String, _ headers: [(String, String)], _ body: [UInt8]?
    ) async throws -> Page {
        var request = HTTPClientRequest(url: base + path)
        request.method = method
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let cookie { request.headers.add(name: "cookie", value: cookie) }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        let response = try await http.execute(request, timeout: .seconds(60))
        let bytes = try await response.body.collect(upTo: 1 << 26)
        let page = Page(
            status: Int(response.status.code), headers: response.headers, bytes: Array(bytes.readableBytesView))
        state.withLock { state in
            if let set = page.headers.first(name: "set-cookie") {
                let pair = String(set.prefix { $0 != ";" })
                state.cookie = pair.hasSuffix("=") ? nil : pair
            }
            if let token = page.formToken { state.formToken = token }
        }
        return page
    }
}

/// Commits of a device, in short.
struct WebFixture {
    let device: CloudClient
    private let random = SystemRandom()

    init(_ device: CloudClient) { self.device = device }

    /// - Returns: the ids of the new folders and files, in the order of the names. A name with "/" at its end is a
    ///   folder's.
    @discardableResult
    func make(_ items: [(name: String, text: String)], in folder: ItemID = .root) async throws -> [ItemID] {
        var chunks = [Chunk](), changes = [ItemChange](), ids = [ItemID]()
        for (name, text) in items {
            let id = ItemID(high: random.next(), low: random.next()), isFolder = name.hasSuffix("/")
            let place = Place(parent: folder, name: try ItemName(isFolder ? String(name.dropLast()) : name))
            let content = isFolder ? nil : content(Array(text.utf8), base: nil, &chunks)
            let fields = ChangedFields(
                place: place, mode: isFolder ? 0o755 : 0o644, createdAt: Timestamp(seconds: 1000.0),
                modifiedAt: Timestamp(seconds: 86_400.0), content: content)
            changes.append(ItemChange(
                id: id, kind: isFolder ? .directory : .file, baseRevision: .zero, changedAt: .zero,
                action: .put(fields)))
            ids.append(id)
        }
        try await commit(changes, chunks)
        return ids
    }

    /// Saves a new version.
    /// - Parameters:
    ///   - base: the version that this device knows; nil for the current one.
    ///   - number: of the device.
    func save(_ text: String, to item: ItemID, base: VersionID? = nil, device number: UInt64 = 1) async throws {
        let found = try #require(try await self.item(item))
        var chunks = [Chunk]()
        let content = content(Array(text.utf8), base: base ?? found.content?.version, &chunks)
        let change = ItemChange(
            id: item, kind: .file, baseRevision: found.revision, changedAt: SystemTimekeeper().now(),
            action: .put(ChangedFields(modifiedAt: SystemTimekeeper().now(), content: content)))
        try await commit([change], chunks, device: number)
    }

    /// Makes a file with one undecided conflict.
    func makeConflict(_ name: String, base: String, mine: String, theirs: String) async throws -> ItemID {
        let id = try #require(try await make([(name, base)]).first)
        let first = try #require(try await item(id)?.content?.version)
        try await save(mine, to: id, base: first, device: 1)
        try await save(theirs, to: id, base: first, device: 2)
        return id
    }

    /// The item as the feed has it. Nil if there is none.
    func item(_ id: ItemID) async throws -> RemoteItem? { try await items().first { $0.id == id } }

    /// All items of the feed, deleted ones included.
    func items() async throws -> [RemoteItem] {
        var point = FeedPoint(.zero), items = [ItemID: RemoteItem]()
        while true {
            let page = try await device.changes(after: point, limit: 2000)
            for item in page.items { items[item.id] = item }
            point = FeedPoint(page.revision)
            if !page.hasMore { return items.values.sorted { $0.name < $1.name } }
        }
    }

    func live(_ name: String) async throws -> RemoteItem? {
        try await items().first { !$0.isDeleted && $0.name.description == name }
    }

    /// The current content.
    func text(of id: ItemID) async throws -> String? {
        guard let version = try await item(id)?.content?.version else { return nil }
        let manifest = try await device.manifest(of: version), bytes = Lock([UInt8]())
        guard !manifest.isEmpty else { return "" }
        try await device.fetchChunks(manifest.map(\.id)) { chunk in bytes.withLock { $0 += chunk.bytes } }
        return String(decoding: bytes.withLock { $0 }, as: UTF8.self)
    }

    private func content(_ bytes: [UInt8], base: VersionID?, _ chunks: inout [Chunk]) -> ContentChange {
        let parts = bytes.isEmpty ? [] : [TestChunks.chunk(bytes)]
        chunks += parts
        return ContentChange(
            version: VersionID(high: random.next(), low: random.next()), baseVersion: base, size: Int64(bytes.count),
            manifest: parts.map { ChunkReference(id: $0.id, length: $0.bytes.count) })
    }

    private func commit(_ changes: [ItemChange], _ chunks: [Chunk], device number: UInt64 = 1) async throws {
        _ = try await device.commit(
            CommitRequest(
                id: RequestID(high: random.next(), low: random.next()), device: DeviceID(high: 9, low: number),
                deviceName: number == 1 ? "lap<top>" : "desk", changes: changes, chunks: chunks))
    }
}
