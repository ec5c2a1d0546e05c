package import UbiquityCore
package import UbiquityIndex
package import UbiquityWire

/// Takes in the cloud's answer to a commit, inside one transaction: what was sent and has not changed here since is
/// clean now; what the cloud decided otherwise follows.
package struct CommitApplier {
    private let transaction: IndexTransaction
    private var settler: Settler
    private let boot: [UInt8]
    /// Folders that the commit has made at the cloud, or that were there.
    private var madeFolders: Set<ItemID> = []
    /// Deletions that this device sends again if the cloud has kept the item.
    private var keeper: KeptDeletions

    /// - Parameter boot: this boot of the machine; contents written in it may not survive power loss yet.
    package init(
        _ transaction: IndexTransaction, settler: Settler, boot: [UInt8], keeper: KeptDeletions = KeptDeletions()
    ) {
        self.keeper = keeper
        self.transaction = transaction
        self.settler = settler
        self.boot = boot
    }

    /// Backing files nobody needs any more once the transaction is committed.
    package var dropped: [ContentID] { settler.dropped }

    /// Rows whose deletion is to be sent again.
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
        // Items that are one with others come last: the other's own change may be in the same commit.
        for (change, result) in zip(planned, response.results) where !result.isMerge {
            try apply(change, result, response.revision)
        }
        for (change, result) in zip(planned, response.results) where result.isMerge {
            try apply(change, result, response.revision)
        }
        for id in try keeper.giveUp(transaction, at: response.revision) { try settler.review(id) }
        try settler.settleAll(limit: 1000)
    }

    /// Throws `.invalid` for an answer that no cloud gives: taken in, it would do harm to other items than the one.
    private func check(_ result: ChangeResult, of planned: PlannedChange) throws {
        let id: ItemID
        switch result.outcome {
        case .unknownItem: return
        case .applied: id = planned.change.id
        case .merged(let other):
            id = other
            // Merged into a link, a file would lead to itself.
            let known = try transaction.row(id: other)?.kind
            guard known == nil || known == planned.change.kind else {
                throw UbiquityError(.invalid, "the cloud merged a \(planned.change.kind) into another kind of item")
            }
        }
        let isFolder = planned.change.kind == .directory
        guard id != .root, result.item.map({ $0.id == id && ($0.kind == .directory) == isFolder }) ?? true else {
            throw UbiquityError(.invalid, "the cloud's answer to a commit is about another item")
        }
    }

    /// Shows a record that was held.
    mutating func review(_ id: ItemID) throws { try settler.review(id) }

    mutating func settleAll() throws { try settler.settleAll(limit: 1000) }

    /// The row that a change was made from, if it is still that item.
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
        // The feed has told all up to its position but for what changed again later, and its deletions are forgotten
        // when they are carried out: an older answer about an item that is not known any more is about one that was
        // deleted since. One that is known to be deleted may have come back by this commit: the later revision counts.
        if let known = try transaction.remote(id: item.id) {
            if known.isDeleted, item.revision <= known.revision { item.isDeleted = true }
        } else if try item.revision <= transaction.feedPosition().revision {
            item.isDeleted = true
        }
        if try isHeldForPackage(item) { try settler.hold(item) } else { try settler.receive(item) }
        try settler.review(item.id)
    }

    /// Another's newer content of a file that is here: a package shows it together with the rest of its new state.
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
        // Made without a row: see `SyncEngine+VersionActions`.
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

    /// Whether who deleted the item knew what the cloud has: its own version, and no conflict that it had not heard of.
    private func isKnown(_ item: RemoteItem, to row: ItemRow) throws -> Bool {
        try transaction.isWholeStateKnown(of: item, to: row)
    }

    /// The cloud deleted the item, or kept it because it was edited meanwhile: then it is added anew by its record.
    private mutating func acknowledgeDeletion(_ row: ItemRow, _ item: RemoteItem?) throws {
        guard row.isDeleted else { return try sendReturn(of: row) }
        // Whether the deletion is sent again is decided when the whole answer is in the index.
        if let item, !item.isDeleted, keeper.add(row, item) { return }
        try transaction.delete(row)
    }

    /// The item came back here while its deletion was on its way: only a content brings it back at the cloud.
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

    /// Fields whose values are still the ones that were sent are clean.
    private func clear(_ row: inout ItemRow, _ sent: ItemRow, _ fields: ChangedFields, _ item: RemoteItem?) {
        let wasCreation = row.dirty.contains(.created)
        row.dirty.remove(.created)
        row.flags.remove(.creationSent)
        if wasCreation {
            // What changed since the creation was sent has no mark of its own yet.
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
        // Said again with its package, and replaced here meanwhile by what the cloud had: that is what is here.
        if row.generation == sent.generation, row.version != sent.version, !row.dirty.contains(.content) { return }
        // An announcement of what another device has announced before: nobody will hear of this one.
        if content.manifest == nil, !content.isKnown(by: item) { return }
        // Also after an announcement: what is here is made from the announced version, or is that version. One that the
        // cloud has not taken is what it was made from, whatever the feed has told meanwhile; one that is equal to the
        // cloud's is that.
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
            // Changed again meanwhile: what is here now is made from the version that has just gone up.
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

    /// The item is one with another now: it takes that identity, and its content is that item's next or lost version.
    private mutating func merge(_ planned: PlannedChange, into other: ItemID, _ item: RemoteItem?) throws {
        if let row = try row(of: planned), row.id != other {
            // Who removed it meanwhile has not seen the other, which stays.
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
            if let double, row.entry?.parent == double.key { takePlace(of: double, &next) }
            if !next.dirty.isEmpty, let item { next.dirtyBase = item.revision }
            try transaction.update(next, before: row)
            let isGone = next.entry == nil && row.entry != nil
            transaction.note(
                isGone ? .removed : next.entry == row.entry ? .attributes : .moved, before: row,
                after: isGone ? nil : next)
            // Other names of both are names of the one from now on.
            try transaction.retargetLinks(from: row.id, to: other)
            if next.kind != .hardLink { try transaction.touchLinked(other, now: settler.now) }
        }
        try take(item)
    }

    /// It was moved into the folder that it is one with: the two have the place of the outer one.
    private func takePlace(of double: ItemRow, _ row: inout ItemRow) {
        row.entry = double.entry
        row.dirty.remove(.place)
        if double.dirty.contains(.place) { row.dirty.insert(.place) }
    }

    /// The cloud has forgotten the item (or its folder): everything of it goes up once more.
    private mutating func sendAgainAsNew(_ planned: PlannedChange, unknownAt revision: Revision) throws {
        guard let row = try row(of: planned) else { return }
        let known = try transaction.remote(id: row.id)
        // Another device has brought it back since, as the feed has told: the change goes up once more as it is.
        if let known, !known.isDeleted, known.revision > revision { return }
        if known?.isDeleted == false, try sendFolderAgain(of: row, planned) { return }
        try transaction.forgetRemote(row.id)
        if row.isDeleted { return try transaction.delete(row) }
        if row.isPlaceholder { return known == nil ? try keepPlaceholder(row) : try giveUp(row) }
        if row.kind == .hardLink, try !sendLinkedAgain(row) { return }
        try transaction.sendAsNew(row)
        try sendPackageAgain(around: row)
        // Its folder may be what is unknown; if it is not, the cloud answers with the record that is known here.
        guard let parent = row.entry?.parent, parent != .root, let folder = try transaction.row(key: parent),
            planned.change.baseRevision == .zero, folder.dirty.isEmpty
        else { return }
        try transaction.sendAsNew(folder)
    }

    /// A package is one document: of one that the cloud has forgotten, what was not changed here goes up too. (What is
    /// not here is lost with it.)
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

    /// It may be the folder that the item was moved into that the cloud has forgotten: that goes up once more, and then
    /// it shows.
    /// - Returns: false if it cannot be the folder.
    private func sendFolderAgain(of row: ItemRow, _ planned: PlannedChange) throws -> Bool {
        guard case .put(let fields) = planned.change.action, let place = fields.place, place.parent != .root,
            planned.change.baseRevision != .zero, !madeFolders.contains(place.parent),
            let folder = try transaction.row(id: place.parent), !folder.isDeleted
        else { return false }
        if !folder.dirty.contains(.created) { try transaction.sendAsNew(folder) }
        return true
    }

    /// What a hard link leads to may be what the cloud has forgotten: it goes up once more. If its content is gone with
    /// that, the name is too.
    /// - Returns: false if the name is gone.
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
            // Once that waits to be made at the cloud, its names wait for it.
            guard !linked.dirty.contains(.created) else { return true }
            try transaction.forgetRemote(linked.id)
            try transaction.sendAsNew(linked)
        } else if linked.dirty.isEmpty {
            // Or what is forgotten is the folder of the link alone: the answer to any change of it tells.
            var next = linked
            // The mode is shown as the cloud has it, whatever of the content is still on its way.
            try transaction.markDirty(&next, .mode, now: settler.now)
            try transaction.update(next, before: linked)
        }
        return true
    }

    /// Of another cloud than this: its content may come back with that (see `IndexTransaction.startOver`).
    private func keepPlaceholder(_ row: ItemRow) throws {
        var next = row
        next.dirty = []
        try transaction.update(next, before: row)
    }

    /// Neither the cloud nor this device has its content: it goes, and its names with it.
    private mutating func giveUp(_ row: ItemRow) throws {
        // A damaged index may have links to links, even one to itself.
        if row.isLinked, row.kind != .hardLink { for link in try transaction.links(to: row.id) { try giveUp(link) } }
        if let content = row.content { try settler.drop(content) }
        try transaction.delete(row)
        transaction.note(.removed, before: row, after: nil)
        if row.kind == .hardLink { try transaction.touchLinked(row.linkedID, now: settler.now) }
    }
}

extension ContentChange {
    /// Whether the cloud kept it neither as the current version nor as a conflict: it was no edit of its base.
    fileprivate func isPassedOver(_ item: RemoteItem?) -> Bool {
        guard baseVersion != nil, let item, !item.isDeleted, item.content != nil else { return false }
        return !isKnown(by: item)
    }

    /// Whether it is the current version or in conflict, as far as the item tells (it names only some conflicts).
    fileprivate func isKnown(by item: RemoteItem?) -> Bool {
        guard let item, let current = item.content, item.conflicts.count == item.conflictCount else { return true }
        return current.version == version || item.conflicts.contains { $0.id == version }
    }
}

extension ChangeResult {
    fileprivate var isMerge: Bool { if case .merged = outcome { true } else { false } }
}

extension IndexTransaction {
    /// Marks an item as one the cloud has not seen. The version its content came from is no base any more.
    func sendAsNew(_ row: ItemRow) throws {
        var next = row
        if next.dirty.isEmpty {
            next.dirtyOrder = try newDirtyOrder()
            // Nobody changed it here; what is known of when it was is the time of its content.
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
