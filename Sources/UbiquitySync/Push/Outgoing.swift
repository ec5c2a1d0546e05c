internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquityWire

/// A group that is ready to be sent.
struct Outgoing {
    var group: [PlannedChange] = []
    var chunks: [Chunk] = []
    /// The packages of the group's changes. The cloud gets these changes together or not at all.
    var owners: Set<ItemKey> = []
    /// The edits of packages that the changes make.
    var packages: [PackageEdit] = []
    /// The decisions about some of these packages.
    var decided = DecidedPackages()
    /// Contents whose chunks are uploaded now, ahead of their changes.
    var ahead: [ItemKey: PreparedContent] = [:]

    init(of owners: Set<ItemKey>) { self.owners = owners }

    init(group: [PlannedChange], chunks: [Chunk]) {
        self.group = group
        self.chunks = chunks
    }
}
