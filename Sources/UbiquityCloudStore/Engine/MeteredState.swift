internal import UbiquityCore
internal import UbiquityWire

/// A state that counts its queries and throws beyond a limit, because all other commits wait while one is planned. It
/// caches items: a commit reads the same folders again and again.
final class MeteredState: ContainerState {
    private let base: any ContainerState
    private let limit: Int
    private var spent = 0
    private var items: [ItemID: ItemRecord?] = [:]

    /// Rows of a long answer that cost as much as a query.
    private static let rowsPerQuestion = 32
    /// Chunks of a manifest that cost as much as a query.
    private static let chunksPerQuestion = 256

    init(_ base: any ContainerState, limit: Int) {
        self.base = base
        self.limit = limit
    }

    private func spend(_ amount: Int = 1) throws {
        spent += amount
        guard spent <= limit else {
            throw UbiquityError(
                .tooLarge, "the commit needs more than \(limit) database queries",
                remedy: "send fewer changes at a time, as ubiquity's devices do by themselves")
        }
    }

    func item(_ id: ItemID) throws -> ItemRecord? {
        if let known = items[id] { return known }
        try spend()
        let found = try base.item(id)
        items[id] = .some(found)
        return found
    }

    func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID? {
        try spend()
        return try base.liveChild(of: parent, named: name)
    }

    func liveChildCount(of parent: ItemID) throws -> Int {
        try spend()
        let count = try base.liveChildCount(of: parent)
        try spend(count / Self.rowsPerQuestion)
        return count
    }

    func liveLinks(to item: ItemID) throws -> [ItemID] {
        try spend()
        let links = try base.liveLinks(to: item)
        try spend(links.count / Self.rowsPerQuestion)
        return links
    }

    func version(_ id: VersionID) throws -> VersionRecord? {
        try spend()
        let version = try base.version(id)
        try spend((version?.manifest?.count ?? 0) / Self.chunksPerQuestion)
        return version
    }

    func manifest(ofUnreadable version: VersionID) throws -> Manifest? {
        try spend()
        return try base.manifest(ofUnreadable: version)
    }

    func conflicts(of item: ItemID) throws -> [VersionRecord] {
        try spend()
        let conflicts = try base.conflicts(of: item)
        try spend(conflicts.count / Self.rowsPerQuestion)
        for conflict in conflicts { try spend((conflict.manifest?.count ?? 0) / Self.chunksPerQuestion) }
        return conflicts
    }

    func history(of item: ItemID) throws -> [VersionID] {
        try spend()
        let history = try base.history(of: item)
        try spend(history.count / Self.rowsPerQuestion)
        return history
    }

    func name(of device: DeviceID) throws -> String? {
        try spend()
        return try base.name(of: device)
    }
}
