import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityTestSupport
import UbiquityWire

/// An index, with records as from a cloud, and changes as by a user.
final class Fixture: Sendable {
    let time = ManualTime()
    let random = SeededRandom(7)
    let index: ItemIndex

    init() throws { index = try ItemIndex(path: nil, timekeeper: time, random: random) }

    // MARK: Records

    static func id(_ number: UInt64) -> ItemID { ItemID(high: 9, low: number) }
    static func version(_ number: UInt64) -> VersionID { VersionID(high: 8, low: number) }

    func folder(_ number: UInt64, _ name: String, in parent: ItemID = .root, at revision: Int64 = 1) -> RemoteItem {
        RemoteItem(
            id: Self.id(number), kind: .directory, revision: Revision(revision), parent: parent,
            name: ItemName(stored: Array(name.utf8)), mode: 0o755, createdAt: .zero, modifiedAt: .zero)
    }

    func file(
        _ number: UInt64, _ name: String, in parent: ItemID = .root, at revision: Int64 = 1, version: UInt64 = 1,
        size: Int64 = 10
    ) -> RemoteItem {
        RemoteItem(
            id: Self.id(number), kind: .file, revision: Revision(revision), parent: parent,
            name: ItemName(stored: Array(name.utf8)), mode: 0o644, createdAt: .zero, modifiedAt: .zero,
            content: RemoteContent(
                version: Self.version(version), size: size, isAvailable: true, device: DeviceID(high: 1, low: 1),
                deviceName: "other", manifest: nil))
    }

    /// Applies records in this order, as one page of the feed.
    func receive(_ items: RemoteItem...) throws {
        try index.write(.remote) { transaction in
            var settler = Settler(transaction, owner: (0, 0), now: time.now())
            for item in items { try settler.receive(item) }
            try settler.settleAll(limit: 1000)
        }
        try check()
    }

    func check() throws { try index.read { try $0.checkInvariants() } }

    /// The number of records that are not placed yet.
    var waiting: Int {
        get throws {
            try index.read {
                try $0.records(.waiting, limit: 1000).count + $0.records(.awaitingParent, limit: 1000).count
            }
        }
    }

    // MARK: The local tree

    static func names(_ path: String) throws -> [ItemName] {
        try path.split(separator: "/").map { try ItemName(String($0)) }
    }

    func row(_ path: String) throws -> ItemRow? { try index.read { try $0.row(path: Self.names(path)) } }

    func found(_ path: String, _ location: SourceLocation = #_sourceLocation) throws -> ItemRow {
        try #require(try row(path), sourceLocation: location)
    }

    /// All paths, in order.
    func paths() throws -> [String] {
        func walk(_ key: ItemKey, _ prefix: String) throws -> [String] {
            try index.read { try $0.children(of: key, after: nil, limit: 1000) }.flatMap { row -> [String] in
                let path = prefix + (row.entry?.name.description ?? "?")
                return [path] + (row.kind == .directory ? try walk(row.key, path + "/") : [])
            }
        }
        return try walk(.root, "").sorted()
    }

    func place(_ path: String) throws -> (UInt64, ItemName) {
        let names = try Self.names(path)
        let folder = try #require(try index.read { try $0.row(path: names.dropLast()) })
        return (folder.ino, try #require(names.last))
    }

    @discardableResult
    func make(_ path: String, _ kind: ItemKind = .file) throws -> ItemRow {
        let (folder, name) = try place(path)
        let content = kind == .file ? ContentID(try index.newContentNumber()) : nil
        return try index.create(
            in: folder, named: name,
            NewItem(
                kind: kind, mode: 0o644, uid: 0, gid: 0, linkTarget: kind == .symlink ? [65] : [], content: content))
    }

    @discardableResult
    func edit(_ path: String) throws -> ItemRow {
        let row = try found(path)
        return try index.noteWriting(
            ino: row.ino, changed: true, size: 5, modifiedAt: time.now(), stillOpen: false)
    }

    /// Gives a placeholder a content, like a download.
    @discardableResult
    func materialize(_ path: String) throws -> ItemRow {
        let content = ContentID(try index.newContentNumber())
        let row = try found(path)
        return try index.write(.remote) { transaction in
            var next = row
            next.content = content
            next.contentState = .complete
            next.flags.insert(.keptCurrent)
            try transaction.update(next, before: row)
            return next
        }
    }

    func rename(_ old: String, _ new: String, _ mode: RenameMode = .replacing) throws {
        let (from, oldName) = try place(old)
        let (into, newName) = try place(new)
        _ = try index.rename(from: from, oldName, to: into, newName, mode)
    }

    func remove(_ path: String) throws {
        let (folder, name) = try place(path)
        let isFolder = try found(path).kind == .directory
        _ = try index.remove(from: folder, named: name, directory: isFolder)
    }

    // MARK: Upload

    func dirty() throws -> [ItemRow] { try index.read { try $0.dirtyRows(after: 0, limit: 1000) } }

    /// Plans the changes of the rows.
    func plan(
        _ rows: [ItemRow], prepared: [ItemKey: PreparedContent] = [:], limit: Int = 1000, deletionsUpTo: Int64 = .max,
        isOwned: @escaping (ItemRow) -> Bool = { _ in false },
        isAwaited: @escaping (_ other: ItemRow, _ row: ItemRow) -> Bool = { _, _ in false }
    ) throws -> Planner {
        try index.write(.remote) { transaction in
            for row in rows where row.dirty.contains(.content) && row.nextVersion == nil && !row.isDeleted {
                var next = row
                next.nextVersion = VersionID(high: 7, low: UInt64(row.key.rawValue))
                try transaction.update(next, before: row)
            }
            var planner = Planner(
                transaction.reader, prepared: prepared, limit: limit, deletionsUpTo: deletionsUpTo, isOwned: isOwned,
                isAwaited: isAwaited)
            for row in rows {
                if let current = try transaction.row(key: row.key) { try planner.add(current) }
            }
            return planner
        }
    }

    /// As if the content of every dirty file had been read and sent.
    func prepared(_ rows: [ItemRow]) -> [ItemKey: PreparedContent] {
        var result: [ItemKey: PreparedContent] = [:]
        for row in rows where row.dirty.contains(.content) {
            result[row.key] = PreparedContent(
                generation: row.generation,
                manifest: [ChunkReference(id: ChunkID(digest: [UInt8(row.key.rawValue & 255)]), length: 5)], size: 5)
        }
        return result
    }

    func apply(_ group: [PlannedChange], _ results: [ChangeResult], revision: Int64 = 50) throws {
        try index.write(.remote) { transaction in
            var applier = CommitApplier(
                transaction, settler: Settler(transaction, owner: (0, 0), now: time.now()), boot: [1])
            try applier.apply(group, CommitResponse(revision: Revision(revision), results: results))
        }
        try check()
    }

    /// The record that the cloud would return for a put.
    func answer(_ change: PlannedChange, at revision: Int64 = 50) throws -> RemoteItem {
        let row = change.row
        let known = try index.read { try $0.remote(id: row.id) }
        guard case .put(let fields) = change.change.action else {
            var gone = try #require(known)
            gone.isDeleted = true
            gone.revision = Revision(revision)
            return gone
        }
        let place = fields.place ?? known.map { Place(parent: $0.parent, name: $0.name) }
        let content = fields.content.map {
            RemoteContent(
                version: $0.version, size: $0.size, isAvailable: $0.manifest != nil, device: DeviceID(high: 2, low: 2),
                deviceName: "here", manifest: $0.manifest)
        }
        return RemoteItem(
            id: row.id, kind: row.kind, revision: Revision(revision), parent: try #require(place).parent,
            name: try #require(place).name, mode: fields.mode ?? known?.mode ?? 0,
            createdAt: fields.createdAt ?? known?.createdAt ?? .zero,
            modifiedAt: fields.modifiedAt ?? known?.modifiedAt ?? .zero, xattrs: row.xattrs, linkTarget: row.linkTarget,
            content: content ?? known?.content)
    }
}
