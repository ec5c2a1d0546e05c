internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

/// Matches contents to items. Only the index records that. Where it has lost it, sizes and times of the files help.
struct OwnerCheck: Check {
    let context: CheckContext

    private var unused: UnusedContentCheck { UnusedContentCheck(context: context) }

    /// If two items share one content, the item whose size matches the file keeps it, if there is exactly one.
    func separateSharedContents() throws {
        let rows = try index.read { try $0.rowsSharingContents(limit: SyncLimits.rowsPerRead) }
        for (content, owners) in Dictionary(grouping: rows, by: \.content) {
            // A file that was being written has a size that the index does not know yet.
            guard let content, let status = try store.status(of: content), status.isFile,
                !owners.contains(where: \.isWriting)
            else { continue }
            let fitting = owners.filter { $0.size == status.size && $0.contentState == .complete }
            guard fitting.count == 1, let owner = fitting.first else { continue }
            try index.write(.startup) { transaction in
                for row in owners where row.key != owner.key {
                    var next = row
                    next.content = nil
                    next.contentState = .none
                    try transaction.update(next, before: row)
                }
            }
        }
    }

    /// Matches files that have lost their only content with unreferenced contents. A match needs equal size and time,
    /// and must be unique.
    func findLostContents() throws -> [Finding] {
        let rows = try rowsWithoutContent().filter { $0.content.map { !$0.isPossible } ?? true }
        guard !rows.isEmpty else { return [] }
        let unused = try unused.contents(leavesLeftovers: false).filter(\.status.isFile)
        return try rows.compactMap { row in
            guard let content = only(unused, fitting: row, among: rows) else { return nil }
            try give(content, to: row)
            return Finding(
                .contentMissing, try subject(row), "the index had lost its content's number",
                .repaired("content \(content) has the same size and time and is unreferenced"))
        }
    }

    /// Files without a match that the cloud does not have. Call it after the feed is read.
    func lostContents() throws -> [Finding] {
        guard options.isAlone, try !index.read({ try $0.feedPosition().isInSnapshot }) else { return [] }
        let lost = try rowsWithoutContent().filter { row in
            try row.content == nil && row.version == nil && (row.isExcluded || !device.hasVersionAtCloud(row))
        }
        return try lost.map { row in
            Finding(
                .contentMissing, try subject(row), "the index has lost its content's number",
                options.repairs
                    ? .unrepaired("it was never uploaded; look for it in set-aside, or write the file again")
                    : .found)
        }
    }

    /// Files whose content is nowhere else, and is missing here too.
    func rowsWithoutContent() throws -> [ItemRow] {
        var found = [ItemRow](), key = ItemKey(0)
        while found.count < Diagnosis.maximumFindings {
            let rows = try index.read { try $0.rowsWithOwnContent(after: key, limit: SyncLimits.rowsPerRead) }
            guard let last = rows.last else { break }
            key = last.key
            found += try rows.filter { row in try row.content.map { try store.status(of: $0) == nil } ?? true }
        }
        return found
    }

    private func only(
        _ unused: [(content: ContentID, status: FileStatus)], fitting row: ItemRow, among rows: [ItemRow]
    ) -> ContentID? {
        func fits(_ row: ItemRow, _ status: FileStatus) -> Bool {
            row.size == status.size && row.modifiedAt == status.modifiedAt
        }
        let contents = unused.filter { fits(row, $0.status) }
        guard contents.count == 1, rows.filter({ fits($0, contents[0].status) }).count == 1 else { return nil }
        return contents[0].content
    }

    private func give(_ content: ContentID, to row: ItemRow) throws {
        try index.write(.startup) { transaction in
            var next = row
            next.content = content
            next.contentState = .complete
            try transaction.update(next, before: row)
        }
        if !row.isExcluded { try markChanged(row) }
    }
}
