import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// A parsed query: it decides which items are results.
struct ItemQuery: Sendable {
    let predicate: QueryPredicate
    let scopes: Set<QueryScope>
    /// Names of the folder to which it is confined.
    let folder: [ItemName]
    let isLive: Bool
    let interval: Duration

    /// In seconds: the default time in which changes gather, and the allowed range.
    private static let usualInterval = 0.25
    private static let intervals = 0.02...60.0
    private static let documents = Array("Documents".utf8)

    /// Throws `.invalid` for a malformed predicate, `.invalidName` for a malformed folder.
    init(_ wanted: QueryRequest, now: Double) throws(UbiquityError) {
        predicate = try QueryPredicate(parsing: wanted.predicate, now: now).cheapFirst
        scopes = wanted.scopes.isEmpty ? [.documents, .data] : Set(wanted.scopes)
        folder = try ItemTree.names(of: wanted.folder ?? "")
        isLive = wanted.isLive
        let seconds = wanted.interval ?? Self.usualInterval
        guard seconds.isFinite else { throw UbiquityError(.invalid, "the interval is not a number of seconds") }
        interval = .seconds(min(max(seconds, Self.intervals.lowerBound), Self.intervals.upperBound))
    }

    /// The folder in which to look for results.
    var top: [ItemName] { folder.isEmpty && scopes == [.documents] ? [ItemName(stored: Self.documents)] : folder }

    /// The item's record; nil if it is no result.
    /// - Parameters:
    ///   - entry: the item of that name: for a hard link, the link.
    ///   - path: names from the top folder.
    func record(
        of entry: ItemRow, at path: [ItemName], _ look: ItemLook, _ reader: IndexReader
    ) throws -> MetadataRecord? {
        guard !path.isEmpty, path.starts(with: folder), let row = try reader.named(entry) else { return nil }
        // For a folder the query means its contents; for a file or a package, the item itself.
        if path == folder, row.kind == .directory, !look.index.isPackage(row) { return nil }
        let isSynced = isInSyncedScope(row, path)
        guard isSynced || scopes.contains(.local) && !row.isPlaceholder else { return nil }
        let candidate = Candidate(entry: entry, row: row, path: path, look: look, reader: reader)
        guard try predicate.holds(candidate.value) else { return nil }
        let record = try candidate.record()
        return isSynced || record.item.downloadingStatus != .notDownloaded ? record : nil
    }

    private func isInSyncedScope(_ row: ItemRow, _ path: [ItemName]) -> Bool {
        guard !row.isExcluded else { return false }
        guard path[0].bytes == Self.documents else { return scopes.contains(.data) }
        return scopes.contains(.documents) && path.count > 1
    }
}

/// An item under examination. Facts beyond its row are looked up on demand.
private final class Candidate {
    private let entry: ItemRow
    private let row: ItemRow
    private let path: [ItemName]
    private let look: ItemLook
    private let reader: IndexReader
    private var known: MetadataRecord?

    init(entry: ItemRow, row: ItemRow, path: [ItemName], look: ItemLook, reader: IndexReader) {
        self.entry = entry
        self.row = row
        self.path = path
        self.look = look
        self.reader = reader
    }

    private var text: String { path.map(\.description).joined(separator: "/") }

    func record() throws -> MetadataRecord {
        if let known { return known }
        var item = try look.report(of: row, at: text, reader)
        // Each name of a file is a result of its own.
        item.itemID = entry.id.description
        let record = MetadataRecord(
            item: item, createdAt: row.createdAt.seconds, modifiedAt: row.modifiedAt.seconds,
            usedAt: row.usedAt.seconds)
        known = record
        return record
    }

    func value(of key: QueryKey) throws -> QueryValue? {
        switch key {
        case .name: .text(path.last?.description ?? "")
        case .path: .text(text)
        case .suffix: .text(MetadataRecord.suffix(of: path.last?.description ?? ""))
        case .kind: .text(ItemLook.word(row.kind))
        case .created: .time(row.createdAt.seconds)
        case .modified: .time(row.modifiedAt.seconds)
        case .used: .time(row.usedAt.seconds)
        case .contentType where row.kind != .directory:
            .text(ContentType.of(path.last?.description ?? "", kind: ItemLook.word(row.kind)))
        case .status(.itemID): .text(entry.id.description)
        case .size where row.kind == .file: .number(Double(row.size))
        default: try record().value(of: key)
        }
    }

}
