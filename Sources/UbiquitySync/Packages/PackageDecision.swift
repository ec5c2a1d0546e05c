internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// The decision about two states of a package.
struct PackageDecision {
    var planned: [PlannedChange] = []
    /// Changes of items that have no row here.
    var others: [ItemChange] = []
    var edit: PackageEdit
    /// Chunks of the losing state that are created here.
    var chunks: [Chunk] = []
    var lost: PackageTree?
    /// Whether the local state loses.
    var givesWay: Bool
    /// Whether the local changes do not concern the package's contents. Then the cloud's state is placed as without a
    /// conflict.
    var isAside = false
    /// Whether only a part of the package's changes is sent. Then changes of other packages are not sent either.
    var isPart = false
}

/// Packages of a group that met other states and whose local states win. One commit carries out all of it.
struct DecidedPackages {
    var packages: Set<ItemKey> = []
    /// Packages whose remote state is no longer held after the commit.
    var released: Set<ItemKey> = []
    /// Changes of items that have no row here.
    var others: [ItemChange] = []
}

/// The result of a look at a package with two states.
enum PackageLook {
    case states(PackageMeeting)
    /// The feed is not read to its end, or a program writes in the package.
    case notYet
    /// A part of the local changes cannot be sent now.
    case notWhole
}

extension Outgoing {
    /// A copy with the decision about one of the packages, for when another of them has two states as well.
    func with(_ decision: PackageDecision, about meeting: PackageMeeting) -> Outgoing {
        var next = self
        next.group = decision.planned
        // Sent already.
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
    /// An empty change of the folder, which only marks the decision. For a package deleted at the cloud, it restores
    /// the folder and sets its place.
    var folderChange: ItemChange {
        let isBack = remotes == nil && place != nil
        return ItemChange(
            id: id, kind: .directory, baseRevision: revision, changedAt: latest,
            action: isBack ? .undelete(place) : .put(ChangedFields()))
    }
}
