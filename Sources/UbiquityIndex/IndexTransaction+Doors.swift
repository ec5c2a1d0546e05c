package import UbiquityCore

// These methods lead other modules to the tables and to the rules of the local tree. The methods there have the same
// names, and the documentation.

// RemoteWriter
extension IndexTransaction {
    package func forgetAllRemotes() throws { try remotes.forgetAllRemotes() }
    package func reviewAwaitedContent(of id: ItemID) throws { try remotes.reviewAwaitedContent(of: id) }
    @discardableResult
    package func setRemote(_ item: RemoteItem, state: SettlingState) throws -> Bool {
        try remotes.setRemote(item, state: state)
    }
    package func setState(_ id: ItemID, _ state: SettlingState) throws { try remotes.setState(id, state) }
    package func awaitFolder(_ parent: ItemID) throws { try remotes.awaitFolder(parent) }
    package func noteInSnapshot(_ id: ItemID) throws { try remotes.noteInSnapshot(id) }
    package func forgetRemote(_ id: ItemID) throws { try remotes.forgetRemote(id) }
}

// ContentWriter
extension IndexTransaction {
    package func setContent(_ record: ContentRecord) throws { try contents.setContent(record) }
    package func setLocations(_ manifest: Manifest, in content: ContentID) throws {
        try contents.setLocations(manifest, in: content)
    }
    package func markSynced(_ contents: [ContentID]) throws { try self.contents.markSynced(contents) }
    package func forgetContent(_ content: ContentID) throws { try contents.forgetContent(content) }
    package func forgetUnusedContents() throws { try contents.forgetUnusedContents() }
    package func forgetReplacements() throws { try contents.forgetReplacements() }
}

// VersionWriter
extension IndexTransaction {
    package func noteSent(_ versions: [VersionID]) throws { try self.versions.noteSent(versions) }
    package func forgetSent(_ version: VersionID) throws { try versions.forgetSent(version) }
    @discardableResult
    package func decide(
        _ kind: PendingVersionAction.Kind, _ version: VersionID, of item: ItemID, after: ItemKey? = nil
    ) throws -> VersionID? {
        try versions.decide(kind, version, of: item, after: after)
    }
    package func forgetVersionActions(_ actions: [PendingVersionAction]) throws {
        try versions.forgetVersionActions(actions)
    }
    package func noteVersions(of item: ItemID, _ change: IndexEvent.VersionsChange) throws {
        try versions.noteVersions(of: item, change)
    }
}

// MetaWriter
extension IndexTransaction {
    package func setEnded(_ isEnded: Bool) throws { try meta.setEnded(isEnded) }
    package func setLastBoot(_ boot: [UInt8]) throws { try meta.setLastBoot(boot) }
    package func noteLostContents(wait: Bool) throws { try meta.noteLostContents(wait: wait) }
    package func confirmDeletions(upTo order: Int64) throws { try meta.confirmDeletions(upTo: order) }
    package func holdDeletions(upTo order: Int64) throws { try meta.holdDeletions(upTo: order) }
    package func setFeedPosition(_ position: FeedPosition) throws { try meta.setFeedPosition(position) }
    package func setCaughtUp(_ isSo: Bool) throws { try meta.setCaughtUp(isSo) }
    package func setLinkCounts(_ bytes: [UInt8]) throws { try meta.setLinkCounts(bytes) }
    package func setFeedBehind(_ isSo: Bool) throws { try meta.setFeedBehind(isSo) }
}

// LocalTree
extension IndexTransaction {
    package func markDirty(
        _ row: inout ItemRow, _ fields: DirtyFields, xattrs: Set<[UInt8]> = [], now: Timestamp
    ) throws {
        try tree.markDirty(&row, fields, xattrs: xattrs, now: now)
    }
    package func detach(_ row: ItemRow) throws { try tree.detach(row) }
}

// HardLinks
extension IndexTransaction {
    @discardableResult
    package func touchLinked(_ id: ItemID?, now: Timestamp) throws -> ItemRow? {
        try hardLinks.touchLinked(id, now: now)
    }
    package func moveToOtherName(_ row: ItemRow, than inside: Set<ItemKey> = [], now: Timestamp) throws -> Bool {
        try hardLinks.moveToOtherName(row, than: inside, now: now)
    }
    package func retargetLinks(from old: ItemID, to new: ItemID) throws {
        try hardLinks.retargetLinks(from: old, to: new)
    }
}

// Exclusion
extension IndexTransaction {
    package func isLocalEverywhere(_ name: ItemName, _ kind: ItemKind) -> Bool {
        exclusion.isLocalEverywhere(name, kind)
    }
    package func freeLocalName(near name: ItemName, _ kind: ItemKind, in folder: ItemRow) throws -> ItemName {
        try exclusion.freeLocalName(near: name, kind, in: folder)
    }
    package func includeAfterMove(_ folder: ItemRow, from before: ItemRow, now: Timestamp) throws {
        try exclusion.includeAfterMove(folder, from: before, now: now)
    }
}

// PinInheritance
extension IndexTransaction {
    package func inheritPin(_ row: inout ItemRow) throws { try pins.inheritPin(&row) }
    package func passPin(of row: ItemRow, before: ItemRow) throws { try pins.passPin(of: row, before: before) }
}

// IndexRepair
extension IndexTransaction {
    package func rewriteAttributes(of row: ItemRow) throws { try repair.rewriteAttributes(of: row) }
    package func setKind(_ kind: ItemKind, of row: ItemRow) throws { try repair.setKind(kind, of: row) }
    package func repairContradictions() throws { try repair.repairContradictions() }
}

// MarkRepair
extension IndexTransaction {
    package func wasKeptLocal(_ row: ItemRow) throws -> Bool { try marks.wasKeptLocal(row) }
    package func keepLocal(_ row: ItemRow) throws { try marks.keepLocal(row) }
}

extension IndexTransaction {
    package func giveUp(_ row: ItemRow) throws { try tree.removeLost(row) }
}
