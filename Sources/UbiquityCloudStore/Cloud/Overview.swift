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

/// The part of an account that every page shows. It is found quickly, because no rows are counted.
package struct AccountSummary: Hashable, Sendable {
    package var name: String
    package var usedBytes: Int64
    package var quotaBytes: Int64
    package var containers: [ContainerID]

    package init(name: String, usedBytes: Int64, quotaBytes: Int64, containers: [ContainerID]) {
        self.name = name
        self.usedBytes = usedBytes
        self.quotaBytes = quotaBytes
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

/// The order of a folder on a page. Folders always come first.
package enum FolderOrder: String, Hashable, Sendable, CaseIterable {
    case name, newest, largest
}

/// A part of a folder.
package struct FolderListing: Hashable, Sendable {
    package var items: [RemoteItem]
    /// Items of the whole folder, up to `CloudLimits.countedRows`.
    package var count: Int
    /// False for a folder so large that its items have the order of their names' bytes.
    package var isSorted: Bool
    package init(items: [RemoteItem], count: Int, isSorted: Bool) {
        self.items = items
        self.count = count
        self.isSorted = isSorted
    }
}

package struct SearchResult: Hashable, Sendable {
    package var places: [ItemPlace]
    /// False if there are more, or if the container has too many items to look at each.
    package var isComplete: Bool
    package init(places: [ItemPlace], isComplete: Bool) {
        self.places = places
        self.isComplete = isComplete
    }
}

/// Items in conflict that are not deleted, by id.
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
    /// A part of a folder.
    func folder(
        _ folder: ItemID, _ order: FolderOrder, onlyFolders: Bool, from offset: Int, limit: Int
    ) async throws -> FolderListing
    func child(of folder: ItemID, named name: ItemName) async throws -> RemoteItem?
    /// The item and all live items below it, parents first. Throws `.tooLarge` if there are more than `limit`.
    func subtree(of item: ItemID, limit: Int) async throws -> [RemoteItem]
    /// Live items whose names have the text, whatever the case of its letters.
    func search(_ text: String, limit: Int) async throws -> SearchResult
    /// Items with conflicts, by id, after one.
    func itemsInConflict(after item: ItemID?, limit: Int) async throws -> ItemListing
    /// Throws `.notFound`. The top folder always has a place.
    func place(of item: ItemID) async throws -> ItemPlace
    /// See `CloudService`.
    func versions(of item: ItemID) async throws -> [RemoteVersion]
    func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage
}
