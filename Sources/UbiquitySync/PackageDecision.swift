internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// What comes of two states of a package.
struct PackageDecision {
    var planned: [PlannedChange] = []
    /// Changes of items that have no row here.
    var others: [ItemChange] = []
    var edit: PackageEdit
    /// Chunks of the kept state that are made here.
    var chunks: [Chunk] = []
    var lost: PackageTree?
    /// The state here gives way.
    var givesWay: Bool
    /// What was changed here says nothing of what is in the package: the cloud's state comes as if there were no
    /// conflict.
    var isAside = false
    /// Only some of the package's changes go: none of other packages, and nothing is said about these.
    var isPart = false
}

/// Packages of a group that have met other states, in all of which the state here stands: one commit does all of it.
struct DecidedPackages {
    var packages: Set<ItemKey> = []
    /// Of these, the ones whose cloud's state is held no longer when that is done.
    var released: Set<ItemKey> = []
    /// Changes of items that have no row here.
    var others: [ItemChange] = []
}

/// What is known of a package that met another state.
enum PackageLook {
    case states(PackageMeeting)
    /// The feed has not told all, or somebody writes in it.
    case notYet
    /// Not all that was changed in it can go now.
    case notWhole
}

extension Outgoing {
    /// The same with what was decided about one of the packages, where another of them has met another state too.
    func with(_ decision: PackageDecision, about meeting: PackageMeeting) -> Outgoing {
        var next = self
        next.group = decision.planned
        // Sent by now.
        next.chunks = []
        next.packages = packages.filter { $0.id != meeting.id } + [decision.edit]
        next.decided.packages.insert(meeting.key)
        if !decision.isAside { next.decided.released.insert(meeting.key) }
        next.decided.others += decision.others
        if !decision.planned.contains(where: { $0.change.id == meeting.id }) {
            next.decided.others.append(meeting.folderChange)
        }
        return next
    }
}

extension PackageMeeting {
    /// Says nothing but that the package was decided about; of one that was deleted there, that it is back, and where.
    var folderChange: ItemChange {
        let isBack = remotes == nil && place != nil
        return ItemChange(
            id: id, kind: .directory, baseRevision: revision, changedAt: latest,
            action: isBack ? .undelete(place) : .put(ChangedFields()))
    }
}
