internal import UbiquityCore
internal import UbiquityWire

/// An item in the working set of a commit.
struct ItemDraft {
    /// As it was before; nil for an item this commit creates.
    let original: ItemRecord?
    var record: ItemRecord
    /// It has come to its place by this commit (made, moved, brought back), so its name may be taken there.
    var needsSlot = false
    /// Its current version changed in a way that devices see, though the record itself did not.
    var isTouched = false

    var isChanged: Bool { isTouched || record != original }
}

/// The working set of a commit: the items and versions it touches, over the state as it was.
final class CommitWork {
    let request: CommitRequest
    let state: any ContainerState
    let now: Timestamp
    /// The container's revision before.
    let revision: Revision

    /// Only what this commit creates, changes or brings back. In no order; `order` has that.
    var drafts: [ItemID: ItemDraft] = [:]
    /// The ids of `drafts` in the order in which they came, so that every run decides alike.
    var order: [ItemID] = []
    /// Where in the request an item's change stands.
    var positions: [ItemID: Int] = [:]
    /// By position in the request.
    var outcomes: [CommitPlan.Outcome]
    /// Items that this commit creates in the place of rows that are damaged.
    var damaged = Set<ItemID>()
    /// Versions that this commit looked at or made.
    var versions: [VersionID: VersionRecord] = [:]
    /// Those of `versions` that it changed or made, in order.
    var changedVersions: [VersionID] = []
    var isChangedVersion: Set<VersionID> = []
    var changedVersionsOfItem: [ItemID: [VersionID]] = [:]
    /// Versions that go away.
    var removedVersions: Set<VersionID> = []
    var lostVersions: [VersionID] = []
    var newManifests: [Manifest] = []
    /// New folders that became one with an existing one, and other items that did.
    var mergedInto: [ItemID: ItemID] = [:]
    /// What was found about folders; places do not change any more when it is filled.
    var ancestries: [ItemID: Ancestry] = [:]
    /// How many new directories stand above an item whose parent this commit creates.
    var creationDepth: [ItemID: Int] = [:]

    init(_ request: CommitRequest, state: any ContainerState, revision: Revision, now: Timestamp) {
        self.request = request
        self.state = state
        self.revision = revision
        self.now = now
        outcomes = request.changes.map { .applied($0.id) }
    }

    /// The stamp of what a change does: to a field, if one is given, else to the item.
    func stamp(of change: ItemChange, _ field: FieldTime.Field? = nil) -> FieldStamp {
        stamp(at: field.map(change.time(of:)) ?? change.changedAt)
    }

    /// - Parameter time: by the device's clock.
    func stamp(at time: Timestamp) -> FieldStamp {
        FieldStamp(revision: revision.next, time: corrected(time), device: request.device)
    }

    /// A device's time by our clock. A clock that is off by more than a request's delay neither wins nor loses by that;
    /// and nothing was done later than now.
    func corrected(_ time: Timestamp) -> Timestamp {
        guard let sentAt = request.sentAt else { return min(time, now) }
        let (error, isTooLarge) = now.nanoseconds.subtractingReportingOverflow(sentAt.nanoseconds)
        guard !isTooLarge, Double(error.magnitude) > CloudLimits.clockTolerance * 1e9 else { return min(time, now) }
        let (sum, isBeyond) = time.nanoseconds.addingReportingOverflow(error)
        guard !isBeyond else { return error > 0 ? now : Timestamp(nanoseconds: .min) }
        return min(Timestamp(nanoseconds: sum), now)
    }

    /// The item as this commit has it so far.
    func record(_ id: ItemID) throws -> ItemRecord? {
        if let draft = drafts[id] { return draft.record }
        return try state.item(id) ?? (id == .root ? .root : nil)
    }

    func addDraft(_ draft: ItemDraft) {
        if drafts.updateValue(draft, forKey: draft.record.id) == nil { order.append(draft.record.id) }
    }

    /// Takes an item of the state into the working set.
    func load(_ id: ItemID) throws {
        guard drafts[id] == nil, let record = try record(id) else { return }
        addDraft(ItemDraft(original: record, record: record))
    }

    func update(_ id: ItemID, _ change: (inout ItemDraft) throws -> Void) throws {
        try load(id)
        guard var draft = drafts[id] else {
            throw UbiquityError(.damaged, "item \(id) is not there, though another refers to it")
        }
        try change(&draft)
        drafts[id] = draft
    }

    func isApplied(_ position: Int) -> Bool {
        if case .applied = outcomes[position] { true } else { false }
    }

    /// Refuses what would add a conflict to an item that has as many as may be. Nothing that was taken before is given
    /// up for it: the refused content stays on its device, which sends it when some are decided.
    func checkConflicts() throws {
        for id in order {
            guard let draft = drafts[id], draft.record.conflictCount > CloudLimits.conflictsPerItem,
                draft.record.conflictCount > draft.original?.conflictCount ?? 0
            else { continue }
            throw UbiquityError(
                .tooLarge,
                "the cloud keeps at most \(CloudLimits.conflictsPerItem) conflict versions of one item, and "
                    + "\"\(draft.record.name)\" has as many",
                remedy: "resolve some of them (ubiquity resolve); then this change is sent by itself")
        }
    }

    /// The plan of everything that differs from before. Items without a difference keep their revision.
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
