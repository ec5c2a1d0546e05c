import UbiquityCore
import UbiquityWire

/// The items of the container that an import reads, as its cloud has them.
struct ImportTree: Sendable {
    private(set) var items: [ItemID: RemoteItem] = [:]
    private var children: [ItemID: [ItemID]] = [:]

    /// Reads all items.
    static func read(_ service: any CloudService) async throws -> ImportTree {
        let description = try await service.open()
        var tree = ImportTree(), point = FeedPoint(.zero, incarnation: description.incarnation), hasMore = true
        while hasMore {
            let page = try await service.snapshot(after: point, limit: Limits.maximumItemsPerPage)
            for item in page.items { tree.items[item.id] = item.isDeleted ? nil : item }
            guard page.revision > point.revision || !page.hasMore else {
                throw UbiquityError(.damaged, "the cloud's list of items does not end")
            }
            point = FeedPoint(page.revision, mark: page.mark, incarnation: description.incarnation)
            hasMore = page.hasMore
        }
        for item in tree.items.values where item.id != .root { tree.children[item.parent, default: []].append(item.id) }
        return tree
    }

    /// The items in a folder, by name.
    func items(in folder: ItemID) -> [RemoteItem] {
        (children[folder] ?? []).compactMap { items[$0] }.sorted { $0.name < $1.name }
    }

    /// The item at a path, relative to the container.
    func item(at path: String) -> RemoteItem? {
        var folder = ItemID.root, found: RemoteItem?
        for name in path.split(separator: "/") where name != "." {
            found = items(in: folder).first { $0.name.bytes == Array(name.utf8) }
            guard let found else { return nil }
            folder = found.id
        }
        return found
    }

    /// The path of an item in the container.
    func path(of item: RemoteItem) -> String {
        var names = [item.name.description], next = item.parent
        while next != .root, names.count < Limits.maximumDepth, let folder = items[next] {
            names.append(folder.name.description)
            next = folder.parent
        }
        return names.reversed().joined(separator: "/")
    }
}
