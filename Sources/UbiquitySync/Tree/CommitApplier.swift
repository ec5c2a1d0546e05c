package import UbiquityCore
package import UbiquityIndex
package import UbiquityWire

/// Applies the cloud's answer to a commit inside one transaction. A sent field that has not changed since becomes
/// clean. Where the cloud decided otherwise, the row follows the cloud.
package struct CommitApplier {
    private let transaction: IndexTransaction
    private var settler: Settler
    private let boot: [UInt8]
    /// Folders that this commit created at the cloud, or that existed there.
    private var madeFolders: Set<ItemID> = []
    /// Deletions to send again if the cloud has kept the item.
    private var keeper: KeptDeletions

    /// - Parameter boot: this boot of the machine. Contents written in it may not survive a loss of power yet.
    package init(
        _ transaction: IndexTransaction, settler: Settler, boot: [UInt8], keeper: KeptDeletions = KeptDeletions()
    ) {
        self.keeper = keeper
        self.transaction = transaction
        self.settler = settler
        self.boot = boot
    }

    /// Backing files that are unreferenced once the transaction is committed.
    package var dropped: [ContentID] { settler.dropped }

    /// Rows whose deletion must be sent again.
    package var keptDeletions: Set<ItemKey> { keeper.kept }

    package mutating func apply(_ planned: [PlannedChange], _ response: CommitResponse) throws {
        guard planned.count == response.results.count else {
            throw UbiquityError(
                .invalid, "the cloud's answer to a commit has \(response.results.count) results, not \(planned.count)")
        }
        for (change, result) in zip(planned, response.results) { try check(result, of: change) }
        for (change, result) in zip(planned, response.results) where result.outcome == .applied {
            if change.row.kind == .directory, change.row.dirty.contains(.created) { madeFolders.insert(change.row.id) }
        }
        // Apply merges last: the other item's own change may be in the same commit.
        for (change, result) in zip(planned, response.results) where !result.isMerge {
            try apply(change, result, response.revision)
        }
        for (change, result) in zip(planned, response.results) where result.isMerge {
            try apply(change, result, response.revision)
        }
        for id in try keeper.giveUp(transaction, at: response.revision) { try settler.review(id) }
        try settler.settleAll(limit: 1000)
    }

    /// - Throws: `.invalid` for an answer that no correct cloud gives. Applied, it would damage other items.
    private func check(_ result: ChangeResult, of planned: PlannedChange) throws {
        let id: ItemID
        switch result.outcome {
        case .unknownItem: return
        case .applied: id = planned.change.id
        case .merged(let other):
            id = other
            // A file merged into a hard link would refer to itself. A link merged into a file would refer to nothing.
            let known = [try transaction.row(id: other)?.kind, try transaction.remote(id: other)?.kind]
            guard known.allSatisfy({ $0 ?? planned.change.kind == planned.change.kind }) else {
                throw UbiquityError(.invalid, "the cloud merged a \(planned.change.kind) into another kind of item")
            }
        }
        guard id != .root, result.item.map({ $0.id == id && $0.kind == planned.change.kind }) ?? true else {
            throw UbiquityError(.invalid, "the cloud's answer to a commit is about another item")
        }
    }

    /// Shows a record that was held back.
    mutating func review(_ id: ItemID) throws { try settler.review(id) }

    mutating func settleAll() throws { try settler.settleAll(limit: 1000) }

    /// The row that the change was made from, if it still holds that item.
    private func row(of planned: PlannedChange) throws -> ItemRow? {
        guard let row = try transaction.row(key: planned.row.key), row.id == planned.row.id else { return nil }
        return row
    }

    private mutating func apply(_ planned: PlannedChange, _ result: ChangeResult, _ revision: Revision) throws {
        switch result.outcome {
        case .unknownItem: try sendAgainAsNew(planned, unknownAt: revision)
        case .merged(let other): try merge(planned, into: other, result.item)
        case .applied:
            if let row = try row(of: planned) { try acknowledge(row, planned, result.item) }
            try take(result.item)
        }
    }

    mutating func take(_ item: RemoteItem?) throws {
        guard var item else { return }
        // An older answer must not restore a deleted item. The index removes a deletion's record once it is carried
        // out. So an unknown item at or below the feed's position has been deleted since. An item known to be deleted
        // may have been restored by this commit: the later revision wins.
        if let known = try transaction.remote(id: item.id) {
            if known.isDeleted, item.revision <= known.revision { item.isDeleted = true }
        } else if try item.revision <= transaction.feedPosition().revision {
            item.isDeleted = true
        }
        if try isHeldForPackage(item) { try settler.hold(item) } else { try settler.receive(item) }
        try settler.review(item.id)
    }

    /// Whether the item is a newer remote content of a local file in a package. The package shows it together with the
    /// rest of its new state.
    private func isHeldForPackage(_ item: RemoteItem) throws -> Bool {
        guard item.kind == .file, let row = try transaction.row(id: item.id), row.entry != nil,
            row.awaitsContent(of: item)
        else { return false }
        var finder = transaction.packageFinder
        return try finder.package(of: row) != nil
    }

    // MARK: Acknowledged

    private mutating func acknowledge(_ row: ItemRow, _ planned: PlannedChange, _ item: RemoteItem?) throws {
        switch planned.change.action {
        case .delete: try acknowledgeDeletion(row, item)
        // Changes without a row, see `VersionActions`.
        case .versions, .undelete: break
        case .put(let fields):
            var next = row
            clear(&next, planned.row, fields, item)
            try acknowledgeContent(&next, planned.row, fields.content, item)
            if !next.dirty.isEmpty, let item,
                try !next.isDeleted || isKnown(item, to: next)
            {
                next.dirtyBase = item.revision
            }
            try transaction.update(next, before: row)
            transaction.note(.attributes, before: row, after: next)
        }
    }

    /// Whether the deleting program knew the cloud's state: the same version, and no conflict unknown to this device.
    private func isKnown(_ item: RemoteItem, to row: ItemRow) throws -> Bool {
        try transaction.isWholeStateKnown(of: item, to: row)
    }

    /// The cloud deleted the item, or kept it because it was edited meanwhile. A kept item is added anew from its
    /// record.
    private mutating func acknowledgeDeletion(_ row: ItemRow, _ item: RemoteItem?) throws {
        guard row.isDeleted else { return try sendReturn(of: row) }
        // Decide whether to send the deletion again once the whole answer is in the index.
        if let item, !item.isDeleted, keeper.add(row, item) { return }
        try transaction.delete(row)
    }

    /// The item was restored here while its deletion was in flight. Only a content restores it at the cloud.
    private func sendReturn(of row: ItemRow) throws {
        guard row.kind == .file, row.contentState == .complete, row.entry != nil, !row.dirty.contains(.content) else {
            return
        }
        var next = row
        if next.dirty.isEmpty { next.dirtyOrder = try transaction.newDirtyOrder() }
        next.dirty.insert(.content)
        next.flags.insert(.returned)
        next.generation += 1
        try transaction.update(next, before: row)
        transaction.note(.attributes, before: row, after: next)
    }

    /// Clears the dirty bit of each field whose value still equals the sent one.
    private func clear(_ row: inout ItemRow, _ sent: ItemRow, _ fields: ChangedFields, _ item: RemoteItem?) {
        let wasCreation = row.dirty.contains(.created)
        row.dirty.remove(.created)
        row.flags.remove(.creationSent)
        if wasCreation {
            // Changes made after the creation was sent have no dirty bit of their own yet.
            if row.entry != sent.entry { row.dirty.insert(.place) }
            if row.mode != sent.mode { row.dirty.insert(.mode) }
            if row.modifiedAt != sent.modifiedAt { row.dirty.insert(.times) }
            if row.xattrs != sent.xattrs { row.dirty.insert(.xattrs) }
        }
        if fields.place != nil, row.entry == sent.entry { row.dirty.remove(.place) }
        if fields.mode != nil, row.mode == sent.mode { row.dirty.remove(.mode) }
        if fields.modifiedAt != nil, row.modifiedAt == sent.modifiedAt, row.createdAt == sent.createdAt {
            row.dirty.remove(.times)
        }
        if row.xattrs == sent.xattrs { row.dirty.remove(.xattrs) } else { row.noteSent(xattrs: sent.xattrs) }
    }

    private func acknowledgeContent(
        _ row: inout ItemRow, _ sent: ItemRow, _ content: ContentChange?, _ item: RemoteItem?
    ) throws {
        guard let content else { return }
        try transaction.forgetSent(content.version)
        // The content was sent again with its package, and the cloud's content has replaced it here since.
        if row.generation == sent.generation, row.version != sent.version, !row.dirty.contains(.content) { return }
        // The announcement repeats another device's earlier announcement, so it has no effect.
        if content.manifest == nil, !content.isKnown(by: item) { return }
        // Set the base version, also after an announcement: the local content is the announced version or derives from
        // it. A version that the cloud passed over keeps its own base, whatever the feed has reported since. A version
        // equal to the cloud's becomes the cloud's.
        let isPassedOver = content.isPassedOver(item), isSame = row.generation == sent.generation
        if let current = item?.content, let manifest = content.manifest, current.manifest == manifest,
            isSame || !isPassedOver
        {
            row.version = current.version
        } else if !isPassedOver {
            row.version = content.version
        } else if isSame {
            row.version = content.baseVersion
        }
        guard let manifest = content.manifest else { return }
        guard row.generation == sent.generation, let local = row.content else {
            // Changed again meanwhile: the local content derives from the version just uploaded.
            row.nextVersion = nil
            return
        }
        row.dirty.remove(.content)
        row.flags.remove(.returned)
        row.nextVersion = nil
        let record = ContentRecord(
            content: local, version: row.version ?? content.version, size: content.size, manifest: manifest,
            unsyncedBoot: boot)
        try transaction.setContent(record)
        try transaction.setLocations(manifest, in: local)
    }

    // MARK: Other outcomes

    /// The cloud merged the item into another. The row takes that identity, and its content becomes that item's next
    /// version or a losing one.
    private mutating func merge(_ planned: PlannedChange, into other: ItemID, _ item: RemoteItem?) throws {
        if let row = try row(of: planned), row.id != other {
            // The item was removed here before the other one was known, so the other one remains.
            guard !row.isDeleted else {
                try transaction.retargetLinks(from: row.id, to: other)
                try transaction.delete(row)
                return try take(item)
            }
            let double = try transaction.row(id: other)
            if let double { try settler.dissolve(double, into: row) }
            var next = row
            next.id = other
            next.flags.remove(.madeHere)
            if case .put(let fields) = planned.change.action {
                clear(&next, planned.row, fields, item)
                try acknowledgeContent(&next, planned.row, fields.content, item)
            }
            if let double, row.entry?.parent == double.key { inheritPlace(of: double, &next) }
            if !next.dirty.isEmpty, let item { next.dirtyBase = item.revision }
            try transaction.update(next, before: row)
            let isGone = next.entry == nil && row.entry != nil
            transaction.note(
                isGone ? .removed : next.entry == row.entry ? .attributes : .moved, before: row,
                after: isGone ? nil : next)
            // Hard links to either item now refer to the merged item.
            try transaction.retargetLinks(from: row.id, to: other)
            if next.kind != .hardLink { try transaction.touchLinked(other, now: settler.now) }
        }
        try take(item)
    }

    /// The item was moved into the folder that it merged with. The merged folder takes the outer folder's place.
    private func inheritPlace(of double: ItemRow, _ row: inout ItemRow) {
        row.entry = double.entry
        row.dirty.remove(.place)
        if double.dirty.contains(.place) { row.dirty.insert(.place) }
    }

    /// The cloud has forgotten the item or its folder, so all of the item is uploaded again.
    private mutating func sendAgainAsNew(_ planned: PlannedChange, unknownAt revision: Revision) throws {
        guard let row = try row(of: planned) else { return }
        let known = try transaction.remote(id: row.id)
        // The feed has reported since that another device restored the item, so the change is sent again unchanged.
        if let known, !known.isDeleted, known.revision > revision { return }
        if known?.isDeleted == false, try sendFolderAgain(of: row, planned) { return }
        try transaction.forgetRemote(row.id)
        if row.isDeleted { return try transaction.delete(row) }
        if row.isPlaceholder { return known == nil ? try keepPlaceholder(row) : try giveUp(row) }
        if row.kind == .hardLink, try !sendLinkedAgain(row) { return }
        try transaction.sendAsNew(row)
        try sendPackageAgain(around: row)
        // The unknown item may be the folder. If it is not, the cloud answers with the record that is known here.
        guard let parent = row.entry?.parent, parent != .root, let folder = try transaction.row(key: parent),
            planned.change.baseRevision == .zero, folder.dirty.isEmpty
        else { return }
        try transaction.sendAsNew(folder)
    }

    /// A package is one document. If the cloud has forgotten it, its unchanged members are uploaded too. Members that
    /// are placeholders are lost.
    private mutating func sendPackageAgain(around row: ItemRow) throws {
        var finder = transaction.packageFinder
        guard row.entry != nil, let package = try finder.package(of: row), try isForgotten(package) else { return }
        for member in try transaction.members(of: package, limit: .max) where member.key != row.key {
            guard !member.isExcluded, !member.dirty.contains(.created), !member.isPlaceholder,
                try isForgotten(member.key)
            else { continue }
            if member.kind == .hardLink, try !sendLinkedAgain(member) { continue }
            guard let present = try transaction.row(key: member.key), !present.dirty.contains(.created)
            else { continue }
            try transaction.forgetRemote(member.id)
            try transaction.sendAsNew(present)
        }
    }

    private func isForgotten(_ key: ItemKey) throws -> Bool {
        guard let row = try transaction.row(key: key) else { return false }
        return try transaction.remote(id: row.id)?.isDeleted ?? true
    }

    /// The cloud may have forgotten the folder into which the item was moved. That folder is uploaded again, and the
    /// answer tells.
    /// - Returns: false if it cannot be the folder.
    private func sendFolderAgain(of row: ItemRow, _ planned: PlannedChange) throws -> Bool {
        guard case .put(let fields) = planned.change.action, let place = fields.place, place.parent != .root,
            planned.change.baseRevision != .zero, !madeFolders.contains(place.parent),
            let folder = try transaction.row(id: place.parent), !folder.isDeleted
        else { return false }
        if !folder.dirty.contains(.created) { try transaction.sendAsNew(folder) }
        return true
    }

    /// The cloud may have forgotten the target of a hard link. The target is uploaded again. If its content is lost,
    /// the link is removed.
    /// - Returns: false if the link was removed.
    private mutating func sendLinkedAgain(_ link: ItemRow) throws -> Bool {
        guard let linked = try transaction.named(link) else {
            try giveUp(link)
            return false
        }
        let isGone = try transaction.remote(id: linked.id)?.isDeleted ?? true
        if linked.isPlaceholder {
            if isGone { try giveUp(link) }
            return !isGone
        }
        if isGone {
            // Links of a target that waits for its creation at the cloud wait for it.
            guard !linked.dirty.contains(.created) else { return true }
            try transaction.forgetRemote(linked.id)
            try transaction.sendAsNew(linked)
        } else if linked.dirty.isEmpty {
            // Only the link's folder may be unknown. The answer to any change of the target tells.
            var next = linked
            // The mode is a field that can be sent whatever the state of the content.
            try transaction.markDirty(&next, .mode, now: settler.now)
            try transaction.update(next, before: linked)
        }
        return true
    }

    /// The placeholder belongs to another cloud, and its content may return with that (see
    /// `IndexTransaction.startOver`).
    private func keepPlaceholder(_ row: ItemRow) throws {
        var next = row
        next.dirty = []
        try transaction.update(next, before: row)
    }

    /// Removes an item whose content neither the cloud nor this device has, together with its hard links.
    private mutating func giveUp(_ row: ItemRow) throws {
        // A damaged index may have links to links, even a link to itself.
        if row.isLinked, row.kind != .hardLink { for link in try transaction.links(to: row.id) { try giveUp(link) } }
        if let content = row.content { try settler.drop(content) }
        try transaction.delete(row)
        transaction.note(.removed, before: row, after: nil)
        if row.kind == .hardLink { try transaction.touchLinked(row.linkedID, now: settler.now) }
    }
}

extension ChangeResult {
    fileprivate var isMerge: Bool { if case .merged = outcome { true } else { false } }
}

extension IndexTransaction {
    /// Marks an item as new to the cloud. Its content's version is no base any more.
    package func sendAsNew(_ row: ItemRow) throws {
        var next = row
        if next.dirty.isEmpty {
            next.dirtyOrder = try newDirtyOrder()
            // No program changed the item here. The best known time of change is that of its content.
            next.dirtyAt = next.modifiedAt
        }
        next.dirty.insert(.created)
        next.dirtyBase = .zero
        if next.kind == .file, next.contentState == .complete {
            next.dirty.insert(.content)
            next.version = nil
            next.nextVersion = nil
        }
        try update(next, before: row)
    }
}
