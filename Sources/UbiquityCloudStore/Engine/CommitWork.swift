internal import UbiquityCore
internal import UbiquityWire

/// An item in the working set of a commit.
struct ItemDraft {
    /// The item before the commit; nil for an item this commit creates.
    let original: ItemRecord?
    var record: ItemRecord
    /// Whether this commit brought it to its place (created, moved, restored), so that its name may be taken there.
    var needsSlot = false
    /// Whether its current version changed in a way that devices see, though the record itself did not.
    var isTouched = false

    var isChanged: Bool { isTouched || record != original }
}

/// The working set of a commit: the items and versions it touches, over the state before the commit.
final class CommitWork {
    let request: CommitRequest
    let state: any ContainerState
    let now: Timestamp
    /// The container's revision before the commit.
    let revision: Revision

    /// Only items that this commit creates, changes or restores. Unordered; `order` has the order.
    var drafts: [ItemID: ItemDraft] = [:]
    /// The ids of `drafts` in the order of insertion, so that every run decides alike.
    var order: [ItemID] = []
    /// By item: the position of its change in the request.
    var positions: [ItemID: Int] = [:]
    /// By position in the request.
    var outcomes: [CommitPlan.Outcome]
    /// Items that this commit creates in place of damaged rows.
    var damaged = Set<ItemID>()
    /// Versions that this commit read or made.
    var versions: [VersionID: VersionRecord] = [:]
    /// Those of `versions` that it changed or made, in order.
    var changedVersions: [VersionID] = []
    var isChangedVersion: Set<VersionID> = []
    var changedVersionsOfItem: [ItemID: [VersionID]] = [:]
    /// Versions to remove.
    var removedVersions: Set<VersionID> = []
    var lostVersions: [VersionID] = []
    var newManifests: [Manifest] = []
    /// By merged item: the item into which it was merged.
    var mergedInto: [ItemID: ItemID] = [:]
    /// Cached ancestry of folders; places no longer change when it is filled.
    var ancestries: [ItemID: Ancestry] = [:]
    /// By new item: the number of new directories above it.
    var creationDepth: [ItemID: Int] = [:]

    init(_ request: CommitRequest, state: any ContainerState, revision: Revision, now: Timestamp) {
        self.request = request
        self.state = state
        self.revision = revision
        self.now = now
        outcomes = request.changes.map { .applied($0.id) }
    }

    /// The stamp of a change: of one field's time if given, else of the item's.
    func stamp(of change: ItemChange, _ field: FieldTime.Field? = nil) -> FieldStamp {
        stamp(at: field.map(change.time(of:)) ?? change.changedAt)
    }

    /// - Parameter time: by the device's clock.
    func stamp(at time: Timestamp) -> FieldStamp {
        FieldStamp(revision: revision.next, time: corrected(time), device: request.device)
    }

    /// A device's time converted to the cloud's clock. A clock that is off by more than a request's delay must not
    /// decide conflicts, and no change is later than now.
    func corrected(_ time: Timestamp) -> Timestamp {
        guard let sentAt = request.sentAt else { return min(time, now) }
        let (error, isTooLarge) = now.nanoseconds.subtractingReportingOverflow(sentAt.nanoseconds)
        guard !isTooLarge, Double(error.magnitude) > CloudLimits.clockTolerance * 1e9 else { return min(time, now) }
        let (sum, isBeyond) = time.nanoseconds.addingReportingOverflow(error)
        guard !isBeyond else { return error > 0 ? now : Timestamp(nanoseconds: .min) }
        return min(Timestamp(nanoseconds: sum), now)
    }

    /// The item with the changes of this commit so far.
    func record(_ id: ItemID) throws -> ItemRecord? {
        if let draft = drafts[id] { return draft.record }
        return try state.item(id) ?? (id == .root ? .root : nil)
    }

    func addDraft(_ draft: ItemDraft) {
        if drafts.updateValue(draft, forKey: draft.record.id) == nil { order.append(draft.record.id) }
    }

    /// Adds an item of the state to the working set.
    func load(_ id: ItemID) throws {
        guard drafts[id] == nil, let record = try record(id) else { return }
        addDraft(ItemDraft(original: record, record: record))
    }

    func update(_ id: ItemID, _ change: (inout ItemDraft) throws -> Void) throws {
        try load(id)
        guard var draft = drafts[id] else {
            throw UbiquityError(.damaged, "item \(id) is missing, though another item refers to it")
        }
        try change(&draft)
        drafts[id] = draft
    }

    func isApplied(_ position: Int) -> Bool {
        if case .applied = outcomes[position] { true } else { false }
    }

    /// Throws if the commit would add a conflict to an item that has the maximum. No earlier conflict is dropped for
    /// it: the refused content stays on its device, which uploads it when some are decided.
    func checkConflicts() throws {
        for id in order {
            guard let draft = drafts[id], draft.record.conflictCount > CloudLimits.conflictsPerItem,
                draft.record.conflictCount > draft.original?.conflictCount ?? 0
            else { continue }
            throw UbiquityError(
                .tooLarge,
                "\"\(draft.record.name)\" has \(CloudLimits.conflictsPerItem) undecided conflict versions, the maximum "
                    + "of one item",
                remedy: "resolve some of them with 'ubiquity resolve'; then this change is uploaded automatically")
        }
    }

    /// The plan of all differences from before. Items without a difference keep their revision.
    func plan() -> CommitPlan {
        var plan = CommitPlan(revision: revision, newManifests: newManifests, outcomes: outcomes)
        for id in order {
            guard let draft = drafts[id], draft.isChanged else { continue }
            var record = draft.record
            record.revision = revision.next
            plan.items.append(record)
            plan.usageDelta += record.usedBytes - (draft.original?.usedBytes ?? 0)
        }
        plan.versions = changedVersions.filter { !removedVersions.contains($0) }.compactMap { versions[$0] }
        plan.removedVersions = removedVersions.sorted()
        plan.lostVersions = lostVersions
        if !plan.items.isEmpty { plan.revision = revision.next }
        return plan
    }
}
