internal import UbiquityCore

/// Changes of the table `meta`.
package struct MetaWriter: TransactionPart {
    let transaction: IndexTransaction

    /// Marks the index as cleanly ended, just before it is synced to disk, or as in use again.
    package func setEnded(_ isEnded: Bool) throws { try setMeta("ended", isEnded ? 1 : nil) }

    package func setLastBoot(_ boot: [UInt8]) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('boot', ?)", [.bytes(boot)])
    }

    package func noteLostContents(wait: Bool) throws { try setMeta(MetaTable.lostContents, wait ? 1 : 0) }

    package func confirmDeletions(upTo order: Int64) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('confirmedDeletions', ?)", [.int(order)])
    }

    /// Puts deletions on hold until the user answers, regardless of later changes in the container.
    package func holdDeletions(upTo order: Int64) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('heldDeletions', ?)", [.int(order)])
    }

    func setHasNoForeignPrivileges(_ isSo: Bool) throws { try setMeta(MetaTable.reviewed, isSo ? 1 : 0) }

    package func setFeedPosition(_ position: FeedPosition) throws {
        try setMeta("revision", position.revision.number)
        try setMeta("incarnation", position.incarnation.map { Int64(bitPattern: $0) })
        try setMeta("snapshotEpoch", position.snapshotEpoch)
        try setMeta("inSnapshot", position.isInSnapshot ? 1 : 0)
        try setMeta("mark", Int64(bitPattern: position.mark))
    }

    /// See `hasBeenCaughtUp`.
    package func setCaughtUp(_ isSo: Bool) throws { try setMeta("caughtUp", isSo ? 1 : 0) }

    /// See `linkCounts`.
    package func setLinkCounts(_ bytes: [UInt8]) throws {
        guard try reader.meta.linkCounts() != bytes else { return }
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('links', ?)", [.bytes(bytes)])
    }

    /// See `isFeedBehind`.
    package func setFeedBehind(_ isSo: Bool) throws {
        if try reader.meta.isFeedBehind() != isSo { try setMeta("feedBehind", isSo ? 1 : 0) }
    }

    func setMeta(_ name: String, _ value: Int64?) throws {
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", [.text(name), SQLValue(value)])
    }
}
