import UbiquityCloudStore
import UbiquityCore
import UbiquityTestSupport
import UbiquityWire

/// A container in memory, with the commit engine over it.
struct FuzzedContainer {
    private var container = MemoryContainer()
    private var now = Timestamp(seconds: 1000, nanoseconds: 0)

    private var items: [ItemID: ItemRecord] { container.items }
    private var versions: [VersionID: VersionRecord] { container.versions }
    var revision: Revision { container.revision }

    /// Commits like the cloud. A refused commit changes nothing.
    mutating func commit(_ request: CommitRequest) throws {
        now = now.advanced(bySeconds: 1)
        let plan: CommitPlan
        do { plan = try CommitEngine.plan(request, on: container, revision: revision, now: now) } catch {
            switch error {
            case is PackageConflict: return
            case let error as UbiquityError where [.invalid, .tooLarge].contains(error.code): return
            default: throw Broken("refused with \(error)")
            }
        }
        try require(plan.outcomes.count == request.changes.count, "\(plan.outcomes.count) outcomes of \(request.changes.count)")
        try require(plan.revision == revision || plan.revision == Revision(revision.number + 1), "the revision jumps")
        for outcome in plan.outcomes {
            switch outcome {
            case .applied, .unknownItem: break
            case .merged(let id):
                let isKnown = items[id] != nil || plan.items.contains { $0.id == id }
                try require(isKnown, "merged into an item that is not there")
            }
        }
        container.apply(plan)
        container.deviceNames[request.device] = request.deviceName
        try checkInvariants()
    }

    private func checkInvariants() throws {
        var places = Set<Place>(), used: Int64 = 0
        for item in items.values {
            used += item.usedBytes
            try require(item.revision <= revision, "an item is of a revision to come")
            guard item.isLive, item.id != .root else { continue }
            try require(
                places.insert(Place(parent: item.parent, name: item.name)).inserted, "two items are \(item.name)")
            let isInFolder = item.parent == .root || items[item.parent].map { $0.isLive && $0.kind == .directory } ?? false
            try require(isInFolder, "\(item.name) is in no folder")
            try require(reachesRoot(item), "\(item.name) lies in itself")
            try require(item.name != .versionsFolder, "the versions' name is taken")
            if item.kind == .hardLink { try checkLink(item) }
        }
        for item in items.values where item.kind == .file { try checkVersions(of: item) }
        try requireEqual(container.usedBytes, used, "the account's usage")
        try require(container.usedBytes >= 0, "the account's usage is negative")
    }

    private func checkLink(_ link: ItemRecord) throws {
        guard let id = ItemID(bytes: link.linkTarget), let target = items[id] else {
            throw Broken("\(link.name) is a hard link to nothing")
        }
        try require(target.kind == .file || target.kind == .symlink, "\(link.name) is a hard link to a \(target.kind)")
        try require(target.isLive, "\(link.name) is a hard link to a deleted item")
    }

    private func checkVersions(of item: ItemRecord) throws {
        guard let version = item.version.flatMap({ versions[$0] }) else { throw Broken("\(item.name) has no version") }
        try require(version.role == .current && version.size == item.size, "\(item.name)'s version is not its current one")
        try require(version.item == item.id, "\(item.name) has another item's version")
        let conflicts = container.conflicts(of: item.id)
        try requireEqual(conflicts.count, item.conflictCount, "\(item.name)'s number of conflicts")
        try requireEqual(conflicts.reduce(0) { $0 + $1.size }, item.conflictBytes, "\(item.name)'s bytes of conflicts")
    }

    private func reachesRoot(_ item: ItemRecord) -> Bool {
        var parent = item.parent
        for _ in 0...items.count {
            if parent == .root { return true }
            parent = items[parent]?.parent ?? .root
        }
        return false
    }
}
