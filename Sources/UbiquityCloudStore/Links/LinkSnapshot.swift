import GRDB
internal import UbiquityCore

/// The files of an item at the moment when a link is made for it. Later changes do not reach the link.
///
/// It has names, times and contents: no attributes, no owner, no mode and no versions. A symbolic link is included if
/// it stays in the published folder: another target would tell about the account's other folders.
struct LinkSnapshot {
    private(set) var files: [Entry] = []
    private let tables: ContainerTables

    struct Entry {
        var item: ItemID
        var file: LinkedFile
        /// As stored, for a file.
        var manifest: [UInt8]?
    }

    /// - Parameter version: of a file; nil for the current one.
    /// - Throws: `.notFound`, `.notUploadedYet`, `.notSupported`, `.tooLarge`.
    init(of record: ItemRecord, version: VersionID?, _ tables: ContainerTables) throws {
        self.tables = tables
        let path = [record.name]
        switch record.kind {
        case .directory:
            guard version == nil else { throw UbiquityError(.invalid, "a folder has no version to publish") }
            try addFolder(record, path)
        case .file, .hardLink: try addFile(record, path, version)
        default:
            throw UbiquityError(.notSupported, "only files and folders can be published", at: "\(record.name)")
        }
    }

    var size: Int64 { files.reduce(0) { $0 + $1.file.size } }
    /// When the newest of the files was saved.
    var savedAt: Timestamp {
        let files = files.filter { $0.file.kind == .file }
        return (files.isEmpty ? self.files : files).map(\.file.modifiedAt).max() ?? .zero
    }

    private mutating func append(_ entry: Entry) throws {
        guard files.count < CloudLimits.maximumFilesPerLink else {
            throw UbiquityError(
                .tooLarge, "a link has at most \(CloudLimits.maximumFilesPerLink) files and folders",
                remedy: "publish a part of the folder, or an archive of it")
        }
        // An archive holds paths of 65,535 bytes.
        guard entry.file.path.reduce(0, { $0 + $1.bytes.count * 3 + 1 }) < ZipWriter.longestPath else {
            throw UbiquityError(.tooLarge, "a path in the folder is too long for an archive")
        }
        files.append(entry)
    }

    private mutating func addFolder(_ record: ItemRecord, _ path: [ItemName]) throws {
        guard path.count <= Limits.maximumDepth else { throw UbiquityError(.tooLarge, "the folder is too deep") }
        try append(Self.entry(record, path))
        for child in try liveChildren(of: record.id) {
            let path = path + [child.name]
            switch child.kind {
            case .directory: try addFolder(child, path)
            case .file: try addFile(child, path, nil)
            case .hardLink: try addHardLink(child, path)
            case .symlink: if Self.staysInside(child.linkTarget, path) { try append(Self.entry(child, path)) }
            case .fifo, .socket, .characterDevice, .blockDevice: continue
            }
        }
    }

    /// Another name of a file or a symbolic link.
    private mutating func addHardLink(_ link: ItemRecord, _ path: [ItemName]) throws {
        guard let id = ItemID(bytes: link.linkTarget), let item = try tables.item(id) else { return }
        if item.kind == .file {
            try addFile(item, path, nil)
        } else if item.kind == .symlink, Self.staysInside(item.linkTarget, path) {
            try append(Self.entry(item, path))
        }
    }

    private mutating func addFile(_ record: ItemRecord, _ path: [ItemName], _ version: VersionID?) throws {
        if record.kind == .hardLink {
            guard let id = ItemID(bytes: record.linkTarget), let item = try tables.item(id), item.kind == .file else {
                throw UbiquityError(.notSupported, "only files and folders can be published", at: "\(record.name)")
            }
            return try addFile(item, path, version)
        }
        guard let wanted = version ?? record.version else { throw Self.notUploaded(path) }
        guard let content = try tables.version(wanted), content.item == record.id else {
            throw UbiquityError(.notFound, "the file has no version \(wanted)", at: "\(record.name)")
        }
        guard let manifest = content.manifest else { throw Self.notUploaded(path) }
        var entry = Self.entry(record, path)
        entry.file.size = content.size
        entry.file.modifiedAt = content.modifiedAt
        entry.file.manifest = manifest
        entry.manifest = BlobCoding.encode(manifest)
        try append(entry)
    }

    private static func entry(_ record: ItemRecord, _ path: [ItemName]) -> Entry {
        Entry(
            item: record.id,
            file: LinkedFile(
                path: path, kind: record.kind, modifiedAt: record.modifiedAt, size: 0,
                linkTarget: record.kind == .symlink ? record.linkTarget : [], manifest: []))
    }

    private static func notUploaded(_ path: [ItemName]) -> UbiquityError {
        UbiquityError(
            .notUploadedYet, "cannot publish it: the content has not arrived at the cloud yet",
            at: path.map(\.description).joined(separator: "/"),
            remedy: "wait for the upload ('ubiquity wait --uploaded PATH') and publish it again")
    }

    /// Whether a target is relative and does not leave the published folder.
    static func staysInside(_ target: [UInt8], _ path: [ItemName]) -> Bool {
        guard let first = target.first, first != UInt8(ascii: "/") else { return false }
        // The folder of the symbolic link, counted from the published folder.
        var depth = path.count - 2
        for part in target.split(separator: UInt8(ascii: "/")) where part != [UInt8(ascii: ".")] {
            depth += part.elementsEqual("..".utf8) ? -1 : 1
            guard depth >= 0 else { return false }
        }
        return true
    }

    /// All live items of a folder, by name.
    private func liveChildren(of folder: ItemID) throws -> [ItemRecord] {
        try tables.fetchAll(
            """
            SELECT \(ItemRows.columns) FROM items INDEXED BY itemsPlace
            WHERE container = ? AND parent = ? AND deleted IS NULL ORDER BY name LIMIT ?
            """, [Bytes(folder.bytes), CloudLimits.maximumFilesPerLink + 1]
        ).compactMap { ItemRows.record($0) }
    }
}
