package import UbiquityCloudStore
package import UbiquityCore
internal import UbiquityWire

/// A container's tables in memory, as the commit engine reads them. It applies plans and decides nothing.
package struct MemoryContainer: ContainerState {
    package private(set) var items: [ItemID: ItemRecord] = [:]
    package private(set) var versions: [VersionID: VersionRecord] = [:]
    package private(set) var revision = Revision.zero
    package private(set) var usedBytes: Int64 = 0
    /// The names of devices in their last commits.
    package var deviceNames: [DeviceID: String] = [:]
    /// Live items by place.
    private var children: [ItemID: [ItemName: ItemID]] = [:]
    /// Live hard links by their target.
    private var links: [ItemID: Set<ItemID>] = [:]
    private var versionsOfItems: [ItemID: Set<VersionID>] = [:]

    package init() {}

    // MARK: ContainerState

    package func item(_ id: ItemID) -> ItemRecord? { items[id] }
    package func liveChild(of parent: ItemID, named name: ItemName) -> ItemID? { children[parent]?[name] }
    package func liveChildCount(of parent: ItemID) -> Int { children[parent]?.count ?? 0 }
    package func liveLinks(to item: ItemID) -> [ItemID] { links[item, default: []].sorted() }
    package func version(_ id: VersionID) -> VersionRecord? { versions[id] }

    package func conflicts(of item: ItemID) -> [VersionRecord] {
        allVersions(of: item).filter { $0.role == .conflict }.sorted { $0.id < $1.id }
    }

    package func history(of item: ItemID) -> [VersionID] {
        allVersions(of: item).filter { $0.role == .history && $0.isAvailable }.map(\.id).sorted()
    }

    package func name(of device: DeviceID) -> String? { deviceNames[device] }

    /// In no order.
    package func allVersions(of item: ItemID) -> [VersionRecord] {
        versionsOfItems[item, default: []].compactMap { versions[$0] }
    }

    // MARK: Changes

    package mutating func apply(_ plan: CommitPlan) {
        // Items get their new places after all items have left their old ones: two items may exchange names.
        for record in plan.items { leave(record.id) }
        for record in plan.items { enter(record) }
        for version in plan.versions { put(version) }
        remove(versions: plan.removedVersions)
        for version in plan.lostVersions { versions[version]?.role = .history }
        revision = plan.revision
        usedBytes += plan.usageDelta
    }

    /// Forgets deleted items and their versions.
    /// - Returns: the versions.
    package mutating func forget(deleted ids: Set<ItemID>) -> [VersionRecord] {
        let forgotten = ids.flatMap(allVersions)
        for id in ids { items[id] = nil }
        remove(versions: forgotten.map(\.id))
        return forgotten
    }

    private mutating func put(_ version: VersionRecord) {
        if let old = versions[version.id], old.item != version.item { versionsOfItems[old.item]?.remove(version.id) }
        versions[version.id] = version
        versionsOfItems[version.item, default: []].insert(version.id)
    }

    private mutating func remove(versions ids: [VersionID]) {
        for id in ids {
            guard let old = versions.removeValue(forKey: id) else { continue }
            versionsOfItems[old.item]?.remove(id)
        }
    }

    private mutating func leave(_ id: ItemID) {
        guard let old = items[id], old.isLive, children[old.parent]?[old.name] == id else { return }
        children[old.parent]?[old.name] = nil
    }

    private mutating func enter(_ record: ItemRecord) {
        if let old = items[record.id], let target = Self.linked(old) { links[target]?.remove(old.id) }
        items[record.id] = record
        if record.isLive, let target = Self.linked(record) { links[target, default: []].insert(record.id) }
        guard record.isLive, record.id != .root else { return }
        children[record.parent, default: [:]][record.name] = record.id
    }

    private static func linked(_ record: ItemRecord) -> ItemID? {
        record.kind == .hardLink ? ItemID(bytes: record.linkTarget) : nil
    }
}
