package import UbiquityCore
package import UbiquityWire

/// What an account has, for people who look at it.
package struct AccountOverview: Hashable, Sendable {
    package var name: String
    package var usage: CloudUsage
    package var containers: [ContainerOverview]

    package init(name: String, usage: CloudUsage, containers: [ContainerOverview]) {
        self.name = name
        self.usage = usage
        self.containers = containers
    }
}

/// Each count goes to `CloudLimits.countedRows` at most.
package struct ContainerOverview: Hashable, Sendable {
    package var name: ContainerID
    package var revision: Revision
    /// That are not deleted.
    package var items: Int
    /// In the trash, also of deleted folders.
    package var deletedItems: Int
    /// Of all items: current ones, earlier ones and conflicts.
    package var versions: Int
    /// Items with versions that nobody has decided about.
    package var conflictItems: Int
    package var devices: [Device]

    /// One that has sent something.
    package struct Device: Hashable, Sendable {
        package var id: DeviceID
        /// What it was called in its last commit; empty if it did not say.
        package var name: String
        package init(id: DeviceID, name: String) {
            self.id = id
            self.name = name
        }
    }

    package init(
        name: ContainerID, revision: Revision, items: Int, deletedItems: Int, versions: Int, conflictItems: Int,
        devices: [Device]
    ) {
        self.name = name
        self.revision = revision
        self.items = items
        self.deletedItems = deletedItems
        self.versions = versions
        self.conflictItems = conflictItems
        self.devices = devices
    }
}

/// Items that are not deleted: those of a folder by name, or those in conflict by id.
package struct ItemListing: Hashable, Sendable {
    package var items: [RemoteItem]
    package var hasMore: Bool
    package init(items: [RemoteItem], hasMore: Bool) {
        self.items = items
        self.hasMore = hasMore
    }
}

/// An item and the folders above it, from the top one down.
package struct ItemPlace: Hashable, Sendable {
    package var item: RemoteItem
    package var folders: [Folder]

    package struct Folder: Hashable, Sendable {
        package var id: ItemID
        package var name: ItemName
        package init(id: ItemID, name: ItemName) {
            self.id = id
            self.name = name
        }
    }

    package init(item: RemoteItem, folders: [Folder]) {
        self.item = item
        self.folders = folders
    }
}

/// A container as people look at it: what devices do not ask for.
package protocol ContainerBrowser: Sendable {
    /// Items of a folder, by name, after one. Names stay where they are while others come and go.
    func children(of folder: ItemID, after name: ItemName?, limit: Int) async throws -> ItemListing
    /// Items with conflicts, by id, after one.
    func itemsInConflict(after item: ItemID?, limit: Int) async throws -> ItemListing
    /// Throws `.notFound`.
    func place(of item: ItemID) async throws -> ItemPlace
    /// See `CloudService`.
    func versions(of item: ItemID) async throws -> [RemoteVersion]
    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage
}
