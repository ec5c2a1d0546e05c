internal import UbiquityCore
internal import UbiquityWire

// Contents that a device announced when it made a file, and has not sent. Only that device has them, and of one file it
// has one content at a time: what it sends, or that it deletes the file, says that the announced one will not come.
extension CommitWork {
    /// A creation is told again (its answer was lost) and its file was written since: the new content is judged when
    /// it comes, as the announced one is not worth a conflict.
    func isRepeatedAnnouncement(_ content: ContentChange) -> Bool {
        content.manifest == nil && content.baseVersion == nil
    }

    /// Whether this commit's device announced it and never sent it.
    func isOwnAnnouncement(_ version: VersionRecord) -> Bool {
        !version.isAvailable && version.device == request.device
    }

    /// Whether the device that announced the content has deleted the file and never sent it.
    func isGivenUp(_ record: ItemRecord) throws -> Bool {
        guard !record.isLive, let id = record.version, let content = try version(id) else { return false }
        return !content.isAvailable && content.device == record.stamps.existence.device
    }

    /// Takes away the conflict versions that this device announced and has no more.
    func dropOwnAnnouncedConflicts(of id: ItemID) throws {
        for announced in try conflicts(of: id) where isOwnAnnouncement(announced) { try dropConflict(announced) }
    }

    /// An edit wins over the deletion by the very device that announced the content: the best of the edits takes the
    /// place of what will not come.
    /// - Returns: false if there is none, as of a file that another device only brought back or gave a name: nobody
    ///   could ever read it.
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
