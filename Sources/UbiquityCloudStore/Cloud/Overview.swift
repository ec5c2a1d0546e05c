package import UbiquityCore
package import UbiquityWire

/// An account's usage and containers, for the web pages.
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

/// Each count is limited to `CloudLimits.countedRows`.
package struct ContainerOverview: Hashable, Sendable {
    package var name: ContainerID
    package var revision: Revision
    /// Number of items that are not deleted.
    package var items: Int
    /// Number of items in the trash, including those in deleted folders.
    package var deletedItems: Int
    /// Number of versions of all items: current, earlier and conflict versions.
    package var versions: Int
    /// Number of items with undecided conflict versions.
    package var conflictItems: Int
    package var devices: [Device]

    /// A device that has committed changes.
    package struct Device: Hashable, Sendable {
        package var id: DeviceID
        /// The device name in its last commit; empty if it sent none.
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

/// Queries of the web pages that devices do not make.
package protocol ContainerBrowser: Sendable {
    /// Items of a folder, by name, after one. Paging by name is stable while other items change.
    func children(of folder: ItemID, after name: ItemName?, limit: Int) async throws -> ItemListing
    /// Items with conflicts, by id, after one.
    func itemsInConflict(after item: ItemID?, limit: Int) async throws -> ItemListing
    /// Throws `.notFound`.
    func place(of item: ItemID) async throws -> ItemPlace
    /// See `CloudService`.
    func versions(of item: ItemID) async throws -> [RemoteVersion]
    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage
}
