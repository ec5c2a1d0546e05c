import Dispatch
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport

/// SplitMix64: the same numbers for the same seed.
final class SeededRandom: RandomSource, RandomNumberGenerator {
    private let state: Lock<UInt64>

    init(_ seed: UInt64) { state = Lock(seed) }

    func next() -> UInt64 {
        state.withLock {
            $0 &+= 0x9E37_79B9_7F4A_7C15
            var z = $0
            z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
            z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
            return z ^ (z >> 31)
        }
    }

    func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
    func pick<T>(_ choices: [T]) -> T { choices[below(choices.count)] }
}

/// Checks that `body` throws an error of this code.
func expect(
    _ code: UbiquityError.Code, _ location: SourceLocation = #_sourceLocation, _ body: () throws -> Void
) {
    let error = #expect(throws: UbiquityError.self, sourceLocation: location) { try body() }
    #expect(error?.code == code, sourceLocation: location)
}

/// Runs `body` on so many threads at once; the first error is thrown here.
func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) throws {
    let failure = Lock<(any Error)?>(nil)
    DispatchQueue.concurrentPerform(iterations: count) { number in
        do { try body(number) } catch { failure.withLock { $0 = $0 ?? error } }
    }
    if let error = failure.withLock({ $0 }) { throw error }
}

/// An index in a temporary folder, driven by paths ("Documents/a.txt").
final class Fixture: Sendable {
    let folder: TemporaryFolder
    let time = ManualTime()
    let random: SeededRandom
    let index: ItemIndex
    private let recorded = Lock<[IndexEvent]>([])

    init(seed: UInt64 = 1, inMemory: Bool = false, ignoring: IgnoreRules = .standard) throws {
        folder = try TemporaryFolder()
        random = SeededRandom(seed)
        index = try ItemIndex(
            path: inMemory ? nil : folder("index.db"), timekeeper: time, random: random, ignoring: ignoring,
            owner: (1000, 1000), statementThread: BlockingPool(name: "index", threads: 1))
        index.observe { [recorded] events in recorded.withLock { $0 += events } }
    }

    /// Another `ItemIndex` on the same file.
    func reopened(ignoring: IgnoreRules = .standard) throws -> ItemIndex {
        // If this one is open, it commits its batch first.
        try? index.checkpoint()
        return try ItemIndex(
            path: folder("index.db"), timekeeper: time, random: random, ignoring: ignoring, owner: (1000, 1000))
    }

    /// The files as they are now, in another folder, and the index that a new process finds there: the state after kill
    /// -9.
    func copied(
        _ names: [String] = ["index.db", "index.db-wal", "index.journal"]
    ) throws -> (folder: TemporaryFolder, index: ItemIndex) {
        let copy = try TemporaryFolder()
        try copyFiles(names, to: copy)
        return (copy, try ItemIndex(path: copy("index.db"), timekeeper: time, random: random, owner: (1000, 1000)))
    }

    func copyFiles(_ names: [String], to copy: TemporaryFolder) throws {
        for name in names { try Self.copy(folder(name), to: copy(name)) }
    }

    static func copy(_ file: String, to copy: String) throws {
        guard let bytes = try SmallFile.read(file, limit: 1 << 26) else { return }
        try FileDescriptor.open(copy, [.writeOnly, .create, .truncate]).write(bytes)
    }

    /// The events since the last call.
    func events() -> [IndexEvent] {
        recorded.withLock { events in
            defer { events = [] }
            return events
        }
    }

    /// Creates a file in the top folder without a query before, which would commit the batch.
    func make(_ name: String) throws {
        let content = ContentID(try index.newContentNumber())
        _ = try index.create(
            in: 1, named: ItemName(name), NewItem(kind: .file, mode: 0o644, uid: 1, gid: 2, content: content))
    }

    // MARK: Paths

    static func names(_ path: String) throws -> [ItemName] {
        try path.split(separator: "/").map { try ItemName(String($0)) }
    }

    func row(_ path: String) throws -> ItemRow? { try index.read { try $0.row(path: Self.names(path)) } }

    func found(_ path: String, _ location: SourceLocation = #_sourceLocation) throws -> ItemRow {
        try #require(try row(path), sourceLocation: location)
    }

    func row(ino: UInt64) throws -> ItemRow? { try index.read { try $0.row(ino: ino) } }

    private func place(_ path: String) throws -> (folder: UInt64, name: ItemName) {
        let names = try Self.names(path)
        let folder = try #require(try index.read { try $0.row(path: names.dropLast()) })
        return (folder.ino, try #require(names.last))
    }

    // MARK: Changes

    @discardableResult
    func file(_ path: String, mode: UInt32 = 0o644, isWriting: Bool = false, process: Int32 = 0) throws -> ItemRow {
        let content = ContentID(try index.newContentNumber())
        return try make(
            path,
            NewItem(kind: .file, mode: mode, uid: 1, gid: 2, content: content, isWriting: isWriting, process: process))
    }

    @discardableResult
    func directory(_ path: String) throws -> ItemRow {
        try make(path, NewItem(kind: .directory, mode: 0o755, uid: 1, gid: 2))
    }

    @discardableResult
    func symlink(_ path: String, _ text: String) throws -> ItemRow {
        try make(path, NewItem(kind: .symlink, mode: 0o777, uid: 1, gid: 2, linkTarget: Array(text.utf8)))
    }

    func make(_ path: String, _ new: NewItem) throws -> ItemRow {
        let (folder, name) = try place(path)
        return try index.create(in: folder, named: name, new)
    }

    @discardableResult
    func rename(
        _ old: String, _ new: String, _ mode: RenameMode = .replacing, process: Int32 = 0
    ) throws -> RenameResult {
        let (from, oldName) = try place(old)
        let (into, newName) = try place(new)
        return try index.rename(from: from, oldName, to: into, newName, mode, process: process)
    }

    @discardableResult
    func remove(_ path: String, directory: Bool = false, process: Int32 = 0) throws -> ItemRow {
        let (folder, name) = try place(path)
        return try index.remove(from: folder, named: name, directory: directory, process: process)
    }

    // MARK: Answers of the cloud

    /// Makes the item known to the cloud, without local changes. Returns the row.
    @discardableResult
    func confirm(_ path: String, revision: Int64 = 7) throws -> ItemRow {
        try index.write(.remote) { transaction in
            let before = try #require(try transaction.entry(Self.names(path)))
            var row = before
            row.dirty = []
            if row.kind == .file { row.version = VersionID(high: 5, low: UInt64(row.key.rawValue)) }
            try transaction.update(row, before: before)
            try transaction.setRemote(try remote(of: row, revision: revision), state: .settled)
            return row
        }
    }

    /// Turns a confirmed file into a placeholder.
    @discardableResult
    func evict(_ path: String) throws -> ItemRow {
        try index.write(.remote) { transaction in
            let before = try #require(try transaction.row(path: Self.names(path)))
            var row = before
            row.content = nil
            row.contentState = .none
            row.flags.remove(.keptCurrent)
            try transaction.update(row, before: before)
            return row
        }
    }

    private func remote(of row: ItemRow, revision: Int64) throws -> RemoteItem {
        let entry = try #require(row.entry)
        let content = row.version.map {
            RemoteContent(
                version: $0, size: row.size, isAvailable: true, device: DeviceID(high: 1, low: 1), deviceName: "laptop",
                manifest: [])
        }
        return RemoteItem(
            id: row.id, kind: row.kind, revision: Revision(revision), parent: .root, name: entry.name, mode: row.mode,
            createdAt: row.createdAt, modifiedAt: row.modifiedAt, xattrs: row.xattrs, linkTarget: row.linkTarget,
            content: content)
    }

    /// The entry at a path: of a hard link the link itself, and not its target.
    func entry(_ path: String) throws -> ItemRow { try #require(try index.read { try $0.entry(Self.names(path)) }) }

    func check(_ location: SourceLocation = #_sourceLocation) {
        #expect(throws: Never.self, sourceLocation: location) { try index.check() }
    }
}

extension IndexQueries {
    fileprivate func entry(_ names: [ItemName]) throws -> ItemRow? {
        guard let name = names.last, let folder = try row(path: names.dropLast()) else { return nil }
        return try child(of: folder.key, named: name)
    }
}
