import UbiquityContent
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// The notifications to the kernel, in order.
final class RecordingKernelCache: KernelCache {
    enum News: Hashable {
        case entry(UInt64, String)
        case attributes(UInt64)
        case listing(UInt64)
    }
    private let state = Lock<[News]>([])

    func invalidateEntry(parent: UInt64, name: ItemName) { add(.entry(parent, name.description)) }
    func invalidateAttributes(ino: UInt64) { add(.attributes(ino)) }
    func invalidateListing(directory: UInt64) { add(.listing(directory)) }

    private func add(_ news: News) { state.withLock { $0.append(news) } }

    /// The notifications since the last call.
    func take() -> [News] {
        state.withLock { news in
            defer { news = [] }
            return news
        }
    }
}

/// The requests to the sync engine.
final class FakeControl: ItemControl {
    private let state = Lock<[String]>([])
    var asked: [String] { state.withLock { $0 } }

    func requestDownload(_ key: ItemKey) async throws { state.withLock { $0.append("download \(key)") } }
    func setPinned(_ key: ItemKey, _ isPinned: Bool) async throws { state.withLock { $0.append("pin \(isPinned)") } }
    func evict(_ key: ItemKey) async throws { throw UbiquityError(.notPermitted, "pinned") }
}

/// Items of another device, and their downloads: the test controls the arrival of chunks.
final class FakeCloud: Materializer, TransferStatus {
    private struct State {
        var texts: [ItemKey: [UInt8]] = [:]
        var downloads: [ItemKey: PartialContent] = [:]
        /// The number of bytes that may arrive; unlimited at first.
        var allowed: Int64 = .max
        var waiters: [CheckedContinuation<Void, Never>] = []
        /// Counts allowances and cancellations.
        var round: UInt64 = 0
        var failure: UbiquityError?
        var interests = 0
        var finishesItself = true
        var endsDownloads = false
        var ignoresEnds = false
        var ignoredEnds = 0
        var begins = 0
        var waits = 0
        var requests = 0
    }
    private let state = Lock(State())
    /// The used and the available space of the account.
    let account = Lock<AccountSpace?>(nil)
    var space: AccountSpace? { account.withLock { $0 } }
    var identityToken: String? { "someone" }
    let index: ItemIndex
    let contents: ContentStore
    let versions = Lock<[VersionID: (item: ItemID, version: RemoteVersion, text: [UInt8])]>([:])
    let trees = Lock<[VersionID: PackageTree]>([:])
    /// Small chunks give simple ranges.
    static let chunk = 1000

    init(index: ItemIndex, contents: ContentStore) {
        self.index = index
        self.contents = contents
    }

    var interests: Int { state.withLock { $0.interests } }
    var begins: Int { state.withLock { $0.begins } }
    var waits: Int { state.withLock { $0.waits } }
    var requests: Int { state.withLock { $0.requests } }

    func fail(_ error: UbiquityError?) { state.withLock { $0.failure = error } }

    /// Lets that many bytes of every download arrive, from its beginning.
    func allow(_ bytes: Int64) {
        let waiters = state.withLock { state in
            state.allowed = bytes
            state.round += 1
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resume() }
    }

    // MARK: Remote changes

    @discardableResult
    func add(_ name: String, _ text: [UInt8], kind: ItemKind = .file, in parent: ItemKey = .root) throws -> ItemRow {
        let row = try index.write(.remote) { transaction in
            try Self.insert(name, kind, size: text.count, in: parent, transaction)
        }
        state.withLock { $0.texts[row.key] = text }
        return row
    }

    /// A folder with so many empty files, in one commit.
    func add(folder name: String, of count: Int) throws {
        try index.write(.remote) { transaction in
            let folder = try Self.insert(name, .directory, size: 0, in: .root, transaction)
            for number in 0..<count { try Self.insert("f\(number)", .file, size: 0, in: folder.key, transaction) }
        }
    }

    @discardableResult
    private static func insert(
        _ name: String, _ kind: ItemKind, size: Int, in parent: ItemKey, _ transaction: IndexTransaction
    ) throws -> ItemRow {
        let number = transaction.newNumber()
        var row = ItemRow(
            key: ItemKey(number), ino: UInt64(number), id: transaction.newItemID(), kind: kind, mode: 0o644, uid: 1000,
            gid: 1000, size: kind == .file ? Int64(size) : 0, createdAt: .zero,
            modifiedAt: Timestamp(seconds: 1_000_000, nanoseconds: 5), changedAt: .zero, linkTarget: [], xattrs: [],
            localXattrs: [], entry: nil, version: VersionID(high: 1, low: UInt64(number)), content: nil,
            contentState: .none, flags: [], dirty: [], dirtyOrder: 0, dirtyBase: .zero, dirtyAt: .zero,
            generation: 0, nextVersion: nil, usedAt: .zero)
        row.entry = ItemRow.Entry(parent: parent, name: try ItemName(name))
        try transaction.insert(row)
        transaction.note(.added, before: nil, after: row)
        return row
    }

    func remove(_ key: ItemKey) throws {
        try index.write(.remote) { transaction in
            guard let row = try transaction.row(key: key) else { return }
            try transaction.delete(row)
            transaction.note(.removed, before: row, after: nil)
        }
    }

    func change(_ key: ItemKey, _ kind: IndexEvent.Kind, _ body: (inout ItemRow) throws -> Void) throws {
        try index.write(.remote) { transaction in
            guard let before = try transaction.row(key: key) else { return }
            var row = before
            try body(&row)
            try transaction.update(row, before: before)
            transaction.note(kind, before: before, after: row)
        }
    }

    /// A newer content, downloaded: another inode and another backing file for the item.
    func replace(_ key: ItemKey, _ text: [UInt8]) throws {
        let content = ContentID(try index.newContentNumber())
        try contents.create(content).write(text, at: 0)
        try index.write(.remote) { transaction in
            guard let before = try transaction.row(key: key) else { return }
            var row = before
            row.ino = UInt64(transaction.newNumber())
            row.content = content
            row.contentState = .complete
            row.size = Int64(text.count)
            row.version = VersionID(high: 2, low: row.ino)
            try transaction.update(row, before: before)
            transaction.note(.replaced, before: before, after: row)
        }
    }

    // MARK: Materializer

    /// Whether a filled content becomes complete by itself; otherwise only on request.
    func finishesItself(_ does: Bool) { state.withLock { $0.finishesItself = does } }

    /// Whether a download ends with its last byte, like one that fails then.
    func endsDownloads(_ does: Bool) { state.withLock { $0.endsDownloads = does } }

    /// Whether such requests have no effect.
    func ignoresEnds(_ does: Bool) { state.withLock { $0.ignoresEnds = does } }
    /// The number of requests without effect.
    var ignoredEnds: Int { state.withLock { $0.ignoredEnds } }

    func finishIfComplete(_ key: ItemKey) throws {
        guard let content = state.withLock({ $0.downloads[key] }), content.isComplete else { return }
        try finish(content, of: key)
    }

    func finishIfComplete(_ content: PartialContent, of key: ItemKey) throws {
        if content.isComplete { try finish(content, of: key) }
    }

    func begin(_ key: ItemKey) async throws -> PartialContent {
        try check()
        if let content = state.withLock({ $0.downloads[key] }) {
            state.withLock { $0.interests += 1 }
            return content
        }
        guard let text = state.withLock({ $0.texts[key] }) else { throw UbiquityError(.notFound, "no such content") }
        let id = ContentID(try index.newContentNumber())
        let chunks = stride(from: 0, to: text.count, by: Self.chunk).map {
            Array(text[$0..<min($0 + Self.chunk, text.count)])
        }
        let content = try PartialContent(
            id: id, file: try contents.create(id),
            manifest: chunks.map { ChunkReference(id: ChunkNaming.name(of: $0), length: $0.count) },
            size: Int64(text.count))
        try change(key, .attributes) { row in
            guard row.contentState == .none else { throw UbiquityError(.stale, "changed") }
            row.content = id
            row.contentState = .partial
        }
        state.withLock { state in
            state.downloads[key] = content
            state.interests += 1
            state.begins += 1
        }
        return content
    }

    func fill(_ content: PartialContent, _ range: Range<Int64>) async throws {
        while true {
            let round = state.withLock { $0.round }
            try check()
            try Task.checkCancellation()
            try store(content, to: state.withLock { $0.allowed })
            if content.contains(range) { break }
            await wait(since: round)
        }
        guard content.isComplete, let key = key(of: content) else { return }
        if state.withLock({ $0.finishesItself }) { try finish(content, of: key) }
        state.withLock { state in
            if state.endsDownloads { state.downloads[key] = nil }
        }
    }

    private func key(of content: PartialContent) -> ItemKey? {
        state.withLock { state in state.downloads.first { $0.value === content }?.key }
    }

    /// A waiter that checked before an allowance does not wait for the next one.
    private func wait(since round: UInt64) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    state.waits += 1
                    guard state.round == round else { return true }
                    state.waiters.append(continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            allow(state.withLock { $0.allowed })
        }
    }

    private func check() throws { if let failure = state.withLock({ $0.failure }) { throw failure } }

    private func store(_ content: PartialContent, to limit: Int64) throws {
        guard let (_, text) = state.withLock({ state in
            state.downloads.first { $0.value === content }.map { ($0.key, state.texts[$0.key] ?? []) }
        }) else { return }
        for index in content.missing(in: 0..<min(limit, content.size)) {
            let range = content.layout.range(of: index)
            try content.store(index, Array(text[Int(range.lowerBound)..<Int(range.upperBound)]))
        }
    }

    private func finish(_ content: PartialContent, of key: ItemKey) throws {
        let isIgnored = state.withLock { state in
            if state.ignoresEnds { state.ignoredEnds += 1 }
            return state.ignoresEnds
        }
        guard !isIgnored else { return }
        try change(key, .content) { row in
            guard row.content == content.id, row.contentState == .partial else { return }
            try content.finish(modifiedAt: row.modifiedAt)
            row.contentState = .complete
        }
        state.withLock { $0.downloads[key] = nil }
    }

    func release(_ content: PartialContent) { state.withLock { $0.interests -= 1 } }
    func request(_ key: ItemKey) { state.withLock { $0.requests += 1 } }

    func transfer(of key: ItemKey) -> ItemTransfer? {
        guard let content = state.withLock({ $0.downloads[key] }) else { return nil }
        var transfer = ItemTransfer()
        transfer.isDownloading = true
        transfer.percentDownloaded = Int(content.fractionPresent * 100)
        return transfer
    }

    func transfer(below folder: ItemKey) -> ItemTransfer? { nil }
}

/// A coordination's view of a flat folder.
struct NoSurroundings: Surroundings {
    func ancestry(of folder: ItemKey) -> Ancestry { Ancestry(folders: [folder]) }
    func entry(of item: ItemKey) -> ClaimTarget.Entry? { nil }
    func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool { process == ancestor }
    func lineage(of process: Int32) -> [Int32] { [process] }
    func isAlive(_ process: Int32) -> Bool { true }
}
