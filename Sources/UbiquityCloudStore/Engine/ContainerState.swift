package import UbiquityCore

/// The container data that the commit engine reads. Implemented over SQLite's rows and over in-memory tables, so that
/// one engine decides for both.
package protocol ContainerState {
    /// Includes deleted items. The top folder exists only after its first change.
    func item(_ id: ItemID) throws -> ItemRecord?
    func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID?
    func liveChildCount(of parent: ItemID) throws -> Int
    /// Live hard links to an item.
    func liveLinks(to item: ItemID) throws -> [ItemID]
    func version(_ id: VersionID) throws -> VersionRecord?
    /// The manifest of a version whose record is unreadable, if the manifest itself is readable.
    func manifest(ofUnreadable version: VersionID) throws -> Manifest?
    /// The unresolved conflict versions of an item.
    func conflicts(of item: ItemID) throws -> [VersionRecord]
    /// The earlier versions of an item whose content is stored.
    func history(of item: ItemID) throws -> [VersionID]
    /// The device name in its last commit; nil or empty if not known.
    func name(of device: DeviceID) throws -> String?
}

extension ContainerState {
    /// Default for states whose versions are always readable.
    package func manifest(ofUnreadable version: VersionID) throws -> Manifest? { nil }
}

/// The result of the commit engine. Nothing is written yet: the store writes all of it in one transaction.
package struct CommitPlan: Sendable {
    /// The outcome of a change, with the item of its result.
    package enum Outcome: Hashable, Sendable {
        case applied(ItemID)
        case merged(into: ItemID)
        case unknownItem
    }

    /// The container's revision after the commit; unchanged if no item changed.
    package var revision: Revision
    /// Changed and new items.
    package var items: [ItemRecord] = []
    /// Changed and new versions.
    package var versions: [VersionRecord] = []
    /// Versions that the user has removed.
    package var removedVersions: [VersionID] = []
    /// Versions that are unreadable and no longer current.
    package var lostVersions: [VersionID] = []
    /// Manifests that versions have now and did not have before: their chunks must exist, and are in use from now on.
    package var newManifests: [Manifest] = []
    /// One per change, in the order of the request.
    package var outcomes: [Outcome] = []
    /// Change of the account's usage in bytes.
    package var usageDelta: Int64 = 0
}
