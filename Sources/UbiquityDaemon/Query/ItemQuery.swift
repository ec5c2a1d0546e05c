import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// A query as it was asked for: which items are its results.
struct ItemQuery: Sendable {
    let predicate: QueryPredicate
    let scopes: Set<QueryScope>
    /// Names of the folder it is confined to.
    let folder: [ItemName]
    let isLive: Bool
    let interval: Duration

    /// Seconds in which changes gather, if nothing is said, and the bounds of what can be said.
    private static let usualInterval = 0.25
    private static let intervals = 0.02...60.0
    private static let documents = Array("Documents".utf8)

    /// Throws `.invalid` for a predicate that is none, `.invalidName` for a folder that is none.
    init(_ wanted: QueryRequest, now: Double) throws(UbiquityError) {
        predicate = try QueryPredicate(parsing: wanted.predicate, now: now).cheapFirst
        scopes = wanted.scopes.isEmpty ? [.documents, .data] : Set(wanted.scopes)
        folder = try ItemTree.names(of: wanted.folder ?? "")
        isLive = wanted.isLive
        let seconds = wanted.interval ?? Self.usualInterval
        guard seconds.isFinite else { throw UbiquityError(.invalid, "not a number of seconds") }
        interval = .seconds(min(max(seconds, Self.intervals.lowerBound), Self.intervals.upperBound))
    }

    /// Where to look for results.
    var top: [ItemName] { folder.isEmpty && scopes == [.documents] ? [ItemName(stored: Self.documents)] : folder }

    /// What the query makes of an item; nil if it is no result.
    /// - Parameters:
    ///   - entry: The item of that name: of a hard link, the link.
    ///   - path: Names from the top folder.
    func record(
        of entry: ItemRow, at path: [ItemName], _ look: ItemLook, _ reader: IndexReader
    ) throws -> MetadataRecord? {
        guard !path.isEmpty, path.starts(with: folder), let row = try reader.named(entry) else { return nil }
        // What a folder is asked for is in it; a file, or a package, is what is asked for.
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

/// An item that is being looked at; what costs more than its row is looked up when it is asked for.
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
            item: item, createdAt: Self.seconds(row.createdAt), modifiedAt: Self.seconds(row.modifiedAt))
        known = record
        return record
    }

    func value(of key: QueryKey) throws -> QueryValue? {
        switch key {
        case .name: .text(path.last?.description ?? "")
        case .path: .text(text)
        case .suffix: .text(MetadataRecord.suffix(of: path.last?.description ?? ""))
        case .kind: .text(ItemLook.word(row.kind))
        case .created: .time(Self.seconds(row.createdAt))
        case .modified: .time(Self.seconds(row.modifiedAt))
        case .itemID: .text(entry.id.description)
        case .size where row.kind == .file: .number(Double(row.size))
        default: try record().value(of: key)
        }
    }

    private static func seconds(_ time: Timestamp) -> Double { Double(time.nanoseconds) / 1e9 }
}
