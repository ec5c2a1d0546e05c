import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A query on a plain folder, without a daemon: it walks the folder again and again and reports what has changed.
struct LocalFolderSearch: Sendable {
    /// Shortest interval between two walks: a walk examines every item.
    private static let shortestInterval: Duration = .seconds(1)
    /// Items of one walk.
    private static let maximumItems = 1_000_000

    let folder: String
    let scopes: [QueryScope]
    let predicate: QueryPredicate
    let interval: Duration

    /// Passes the results and then their changes to `each`, until the task is cancelled.
    func run(each: @escaping @Sendable (QueryNews) throws -> Void) async throws {
        var known: [String: MetadataRecord] = [:]
        var isFirst = true
        while true {
            let now = try await FileAccess.run { try records() }
            var news = QueryNews(isFirst ? .items : .update)
            news.added = now.filter { known[$0.key] == nil }.map(\.value)
            news.changed = now.compactMap { id, record in known[id] == nil || known[id] == record ? nil : record }
            news.removed = known.keys.filter { now[$0] == nil }
            if news.added?.isEmpty != true || news.changed?.isEmpty != true || news.removed?.isEmpty != true {
                try each(news)
            }
            if isFirst { try each(QueryNews(.gathered)) }
            (known, isFirst) = (now, false)
            try await Sleepers.shared.sleep(for: max(interval, Self.shortestInterval))
        }
    }

    /// The items that match now, by their ids.
    private func records() throws -> [String: MetadataRecord] {
        var found: [String: MetadataRecord] = [:]
        var folders: [(path: [UInt8], inside: [UInt8])] = [(Array(folder.utf8), [])]
        while let next = folders.popLast() {
            // A folder may be removed during the walk.
            guard let entries = try? FileSystem.entries(of: next.path) else { continue }
            for entry in entries {
                let path = Path.join(next.path, entry.name)
                let inside = next.inside.isEmpty ? entry.name : Path.join(next.inside, entry.name)
                guard let status = try? FileSystem.status(path) else { continue }
                let record = Self.record(status, inside)
                if isInScope(inside), predicate.holds({ record.value(of: $0) }) { found[record.id] = record }
                guard found.count <= Self.maximumItems else {
                    throw UbiquityError(
                        .tooLarge, "the folder has more than \(Self.maximumItems) matching items", at: folder)
                }
                if status.isDirectory { folders.append((path, inside)) }
            }
        }
        return found
    }

    private func isInScope(_ path: [UInt8]) -> Bool {
        guard !scopes.isEmpty, !scopes.contains(.local) else { return true }
        let documents = Array("Documents".utf8)
        let isDocument = path.starts(with: documents + [UInt8(ascii: "/")])
        return isDocument ? scopes.contains(.documents) : path != documents && scopes.contains(.data)
    }

    private static func record(_ status: FileStatus, _ path: [UInt8]) -> MetadataRecord {
        let kind: String =
            switch status.kind {
            case .file: "file"
            case .directory: "directory"
            case .symlink: "symlink"
            default: "special"
            }
        let size = status.isDirectory ? 0 : status.size
        var item = ItemReport(path: String(decoding: path, as: UTF8.self), kind: kind, size: size, container: "")
        item.itemID = "\(status.device).\(status.inode)"
        func seconds(_ time: Timestamp) -> Double { Double(time.nanoseconds) / 1e9 }
        return MetadataRecord(
            item: item, createdAt: seconds(status.changedAt), modifiedAt: seconds(status.modifiedAt),
            usedAt: seconds(status.accessedAt))
    }
}
