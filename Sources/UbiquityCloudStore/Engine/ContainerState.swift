package import UbiquityCore

/// What a commit's decisions read of a container. SQLite's rows and the in-memory tables answer it, so that one engine
/// decides for both.
package protocol ContainerState {
    /// Deleted items too. The top folder only once it was changed.
    func item(_ id: ItemID) throws -> ItemRecord?
    func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID?
    func liveChildCount(of parent: ItemID) throws -> Int
    /// Live hard links to an item.
    func liveLinks(to item: ItemID) throws -> [ItemID]
    func version(_ id: VersionID) throws -> VersionRecord?
    /// What a version that cannot be read consists of, if that much can be.
    func manifest(ofUnreadable version: VersionID) throws -> Manifest?
    /// The unresolved conflict versions of an item.
    func conflicts(of item: ItemID) throws -> [VersionRecord]
    /// The earlier versions of an item whose content is there.
    func history(of item: ItemID) throws -> [VersionID]
    /// What a device was called in its last commit; nil or empty if that is not known.
    func name(of device: DeviceID) throws -> String?
}

extension ContainerState {
    /// Where all can be read.
    package func manifest(ofUnreadable version: VersionID) throws -> Manifest? { nil }
}

/// What a commit comes to. Nothing has been written yet: the store writes all of it in one transaction.
package struct CommitPlan: Sendable {
    /// What became of a change, and of which item its result tells.
    package enum Outcome: Hashable, Sendable {
        case applied(ItemID)
        case merged(into: ItemID)
        case unknownItem
    }

    /// The container's revision after the commit; it is the old one if no item changed.
    package var revision: Revision
    /// Changed and new items.
    package var items: [ItemRecord] = []
    /// Changed and new versions.
    package var versions: [VersionRecord] = []
    /// Versions that somebody has done away with.
    package var removedVersions: [VersionID] = []
    /// Versions that cannot be read, and are not the current ones any more.
    package var lostVersions: [VersionID] = []
    /// Manifests that versions have now and had not before: their chunks must be there, and are in use from now on.
    package var newManifests: [Manifest] = []
    /// One per change, in the order of the request.
    package var outcomes: [Outcome] = []
    /// Bytes that the account uses more (or less) than before.
    package var usageDelta: Int64 = 0
}
