internal import UbiquityCore
internal import UbiquityWire

// Contents that a device announced when it created a file, and has not uploaded. Only that device has them, and it has
// one content per file at a time. If it uploads another content or deletes the file, the announced content will never
// come.
extension CommitWork {
    /// Whether a creation is repeated (its answer was lost) and its file was written since. The new content is judged
    /// when it arrives; an announced one does not justify a conflict.
    func isRepeatedAnnouncement(_ content: ContentChange) -> Bool {
        content.manifest == nil && content.baseVersion == nil
    }

    /// Whether this commit's device announced the version and never uploaded it.
    func isOwnAnnouncement(_ version: VersionRecord) -> Bool {
        !version.isAvailable && version.device == request.device
    }

    /// Whether the device that announced the content has deleted the file without uploading it.
    func isGivenUp(_ record: ItemRecord) throws -> Bool {
        guard !record.isLive, let id = record.version, let content = try version(id) else { return false }
        return !content.isAvailable && content.device == record.stamps.existence.device
    }

    /// Removes conflict versions that this device announced and no longer has.
    func dropOwnAnnouncedConflicts(of id: ItemID) throws {
        for announced in try conflicts(of: id) where isOwnAnnouncement(announced) { try dropConflict(announced) }
    }

    /// Handles a deletion by the device that announced the content. Edits win over that deletion: the best of them
    /// replaces the content that will not come.
    /// - Returns: false if there is no edit, as for a file that another device only restored or renamed: it could never
    ///   be read.
    func giveUpAnnouncements(of id: ItemID, _ change: ItemChange) throws -> Bool {
        try dropOwnAnnouncedConflicts(of: id)
        guard let currentID = try record(id)?.version, let current = try version(currentID), isOwnAnnouncement(current)
        else { return true }
        let edits = try conflicts(of: id)
        guard let best = edits.filter(\.isAvailable).max(by: { $1.wins(over: $0) }) else { return !edits.isEmpty }
        try dropConflict(best)
        try makeCurrent(best, insteadOf: current, as: .history, change)
        try update(id) { draft in
            draft.record.modifiedAt = best.modifiedAt
            draft.record.stamps.times = stamp(of: change)
        }
        return true
    }

    private func dropConflict(_ version: VersionRecord) throws {
        try retire(version)
        try update(version.item) { draft in
            draft.record.conflictCount -= 1
            draft.record.conflictBytes -= version.size
        }
    }
}
