package import UbiquityCore

/// Queries of the table `meta`: the position in the feed, the state of this device, and the texts of ignore files.
package struct MetaTable: IndexTable {
    let reader: IndexReader

    /// Returns the machine's boot at the last opening of the index for use; nil at first.
    package func lastBoot() throws -> [UInt8]? {
        var result: [UInt8]?
        try db.run("SELECT value FROM meta WHERE name = 'boot'", []) { result = $0.bytes(0) }
        return result
    }

    /// Returns whether the last run ended cleanly, so that the index lost nothing in a later power loss.
    package func hasEnded() throws -> Bool { try metaNumber("ended") == 1 }

    /// Ignore texts are in `meta`, one row per folder.
    static let ignorePrefix = "ignore/"

    package func ignoreText(of folder: ItemKey) throws -> [UInt8]? {
        try db.first("SELECT value FROM meta WHERE name = ?", [.text(Self.ignorePrefix + "\(folder)")]) {
            $0.bytes(0) ?? []
        }
    }

    func ignoreTexts() throws -> [(ItemKey, [UInt8])] {
        var result = [(ItemKey, [UInt8])]()
        // "0" follows "/" in ASCII, so this selects all names with the prefix.
        try db.run("SELECT name, value FROM meta WHERE name >= 'ignore/' AND name < 'ignore0'", []) { row in
            guard let name = row.text(0), let key = Int64(name.dropFirst(Self.ignorePrefix.count)) else { return }
            result.append((ItemKey(key), row.bytes(1) ?? []))
        }
        return result
    }

    /// Returns whether lost contents that were announced still wait to be handled.
    package func lostContentsWait() throws -> Bool { try (metaNumber(Self.lostContents) ?? 0) != 0 }

    static let lostContents = "lostContents"

    /// Returns the last position in the order of changes whose deletions the user confirmed; 0 if none.
    package func confirmedDeletions() throws -> Int64 {
        try number("SELECT value FROM meta WHERE name = 'confirmedDeletions'", []) ?? 0
    }

    static let reviewed = "privilegesReviewed"

    func hasNoForeignPrivileges() throws -> Bool { try metaNumber(Self.reviewed) == 1 }

    /// Returns this device's position in the change feed, and the cloud it belongs to.
    package func feedPosition() throws -> FeedPosition {
        // One statement, so that all values are of one commit. A revision with another one's mark looks to the cloud
        // like a history that it lacks.
        let names = ["revision", "incarnation", "snapshotEpoch", "inSnapshot", "mark"]
        let columns = names.map { "(SELECT value FROM meta WHERE name = '\($0)')" }.joined(separator: ", ")
        return try db.first("SELECT \(columns)", []) { row in
            FeedPosition(
                // An impossible revision is replaced by the beginning.
                revision: Revision(max(0, row.optionalInt(0) ?? 0)),
                incarnation: row.optionalInt(1).map { UInt64(bitPattern: $0) }, snapshotEpoch: row.optionalInt(2) ?? 0,
                isInSnapshot: row.optionalInt(3) == 1, mark: UInt64(bitPattern: row.optionalInt(4) ?? 0))
        } ?? FeedPosition(revision: .zero, incarnation: nil, snapshotEpoch: 0)
    }

    /// Returns whether the feed was ever read to its end. Before that, the local tree is incomplete.
    package func hasBeenCaughtUp() throws -> Bool { try metaNumber("caughtUp") == 1 }

    /// Returns whether more pages of the feed follow the last one applied. Related changes may be spread over several
    /// pages.
    package func isFeedBehind() throws -> Bool { try metaNumber("feedBehind") == 1 }

    /// Returns the numbers of links of all items that have any, as bytes (`LinkCounts`).
    func linkCounts() throws -> [UInt8] {
        try db.first("SELECT value FROM meta WHERE name = 'links'", []) { $0.bytes(0) ?? [] } ?? []
    }

    /// Returns the number of links to an item that were in force at the last page of the feed.
    package func linkCount(of item: ItemID) throws -> Int {
        let bytes = try linkCounts()
        // Damaged bytes count as none: the next change of a link replaces them.
        return bytes.isEmpty ? 0 : (try? LinkCounts.decode(bytes))?[item] ?? 0
    }

    func metaNumber(_ name: String) throws -> Int64? {
        try number("SELECT value FROM meta WHERE name = ?", [.text(name)])
    }
}
