import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A mount that a query asks.
struct QuerySource: Hashable, Sendable {
    var stateFolder: String
    var mountPoint: String
    var scopes: [QueryScope]
    var isExternal: Bool
    /// Whether the place is a plain folder in no container: it has no daemon.
    var isLocal = false

    /// Returns the searched container, plus the others if the scopes include external documents.
    static func all(of scopes: [MetadataQuery.SearchScope], container: URL?) throws -> [QuerySource] {
        let table = try MountFinder.table()
        let folder = try plainFolder(container, table)
        let main = try folder ?? place(container, table)
        var sources = [QuerySource]()
        let own = scopes.compactMap { scope -> QueryScope? in
            switch scope {
            case .ubiquitousDocuments: .documents
            case .ubiquitousData: .data
            case .localDocuments: .local
            case .accessibleUbiquitousExternalDocuments: nil
            }
        }
        if !own.isEmpty || scopes.isEmpty {
            sources.append(
                QuerySource(
                    stateFolder: text(main.stateFolder), mountPoint: text(main.mountPoint), scopes: own,
                    isExternal: false, isLocal: folder != nil))
        }
        guard scopes.contains(.accessibleUbiquitousExternalDocuments) else { return sources }
        var seen: Set<[UInt8]> = [main.stateFolder]
        for other in table.containers where seen.insert(other.source).inserted {
            // A dead daemon cannot report anything.
            guard MountFinder.isAlive(stateFolder: other.source) else { continue }
            sources.append(
                QuerySource(
                    stateFolder: text(other.source), mountPoint: text(other.mountPoint), scopes: [.documents],
                    isExternal: true))
        }
        return sources
    }

    /// A folder outside of all containers; nil for a place in a container.
    private static func plainFolder(_ container: URL?, _ table: MountTable) throws -> PathResolver.Location? {
        guard let path = container?.systemPath, try MountFinder.find(path) == nil,
            (try? FileSystem.statusFollowing(path))?.isDirectory == true
        else { return nil }
        return PathResolver.Location(mountPoint: Array(path.utf8), stateFolder: [], relativePath: [])
    }

    private static func place(_ container: URL?, _ table: MountTable) throws -> PathResolver.Location {
        if let container { return try MountFinder.locate(container.path) }
        let mounts = table.containers
        guard let only = mounts.first else {
            throw MountUnreachable("cannot start the query", "no container is mounted")
        }
        guard mounts.count == 1 else {
            throw UbiquityError(.invalid, "several containers are mounted", remedy: "name the container to search")
        }
        return PathResolver.Location(mountPoint: only.mountPoint, stateFolder: only.source, relativePath: [])
    }

    private static func text(_ path: [UInt8]) -> String { String(decoding: path, as: UTF8.self) }
}

/// A query's state and its readers.
struct QueryState: Sendable {
    /// Tasks that read the mounts' answers.
    private var tasks: [Task<Void, Never>] = []
    private(set) var isStarted = false
    /// How the query ended; nil while it runs.
    private(set) var outcome: Result<Void, any Error>?
    /// Mounts that have not finished gathering.
    private var gathering: Set<QuerySource> = []
    private var results: QueryResults
    /// Updates of which some parts are missing.
    private var parts: [QuerySource: PartialUpdate] = [:]
    /// Nested calls of `disableUpdates`, the results at the first call, and the changes since.
    private var holds = 0
    private var held: [MetadataItem] = []
    private var heldUpdate = MergedUpdate()
    private var hasHeldEnd = false
    private var inboxes: [Int: UpdateInbox] = [:]
    private var lastInbox = 0

    init(order: MetadataOrder) { results = QueryResults(order: order) }

    var isGathering: Bool { !gathering.isEmpty && outcome == nil }

    mutating func begin(sources: [QuerySource]) {
        isStarted = true
        gathering = Set(sources)
        tell(.didStartGathering)
        // There may be no mount to ask: no other container is mounted.
        if sources.isEmpty { tell(.didFinishGathering) }
    }

    // MARK: Messages

    mutating func take(_ news: QueryNews, from source: QuerySource) {
        guard outcome == nil else { return }
        switch news.kind {
        case .gathering: return
        case .gathered: hasGathered(source)
        case .items, .update: takeItems(news, from: source)
        }
    }

    private mutating func hasGathered(_ source: QuerySource) {
        guard gathering.remove(source) != nil, gathering.isEmpty else { return }
        if holds > 0 { hasHeldEnd = true } else { tell(.didFinishGathering) }
    }

    private mutating func takeItems(_ news: QueryNews, from source: QuerySource) {
        let present = ((news.changed ?? []) + (news.added ?? [])).map {
            MetadataItem($0, mountPoint: source.mountPoint, isExternal: source.isExternal)
        }
        let gone = (news.removed ?? []).map { MetadataItem.ID(mountPoint: source.mountPoint, item: $0) }
        parts[source, default: PartialUpdate()].add(present: present, gone: gone)
        guard news.isPart != true, let whole = parts.removeValue(forKey: source) else { return }
        let update = results.take(present: whole.present, gone: whole.gone)
        pass(on: update, as: news.kind == .items ? .gatheringProgress : .didUpdate)
    }

    private mutating func pass(on update: MetadataUpdate, as kind: MetadataQuery.Event.Kind) {
        guard !update.isEmpty else { return }
        if holds > 0 { heldUpdate.add(update) } else { tell(kind, update) }
    }

    // MARK: The end

    /// - Returns: False if the query has ended; the caller then cancels the task.
    mutating func keep(_ task: Task<Void, Never>) -> Bool {
        guard outcome == nil else { return false }
        tasks.append(task)
        return true
    }

    /// - Returns: The tasks to cancel: all of them if the query has ended.
    mutating func takeEndedTasks() -> [Task<Void, Never>] {
        guard outcome != nil else { return [] }
        defer { tasks = [] }
        return tasks
    }

    /// Handles the end of a mount. When another container ends, the query drops its documents and continues. When the
    /// searched container ends, the query ends.
    mutating func end(_ source: QuerySource, _ result: Result<Void, any Error>) {
        guard outcome == nil else { return }
        guard source.isExternal else { return end(result) }
        parts[source] = nil
        pass(on: results.take(present: [], gone: results.ids(at: source.mountPoint)), as: .didUpdate)
        hasGathered(source)
    }

    mutating func end(_ result: Result<Void, any Error>) {
        guard outcome == nil else { return }
        outcome = result
        for inbox in inboxes.values { inbox.end(result) }
        inboxes = [:]
    }

    // MARK: Results

    mutating func shown() -> [MetadataItem] { holds > 0 ? held : results.items() }

    mutating func disable() {
        if holds == 0 { held = results.items() }
        holds += 1
    }

    mutating func enable() {
        guard holds > 0 else { return }
        holds -= 1
        guard holds == 0 else { return }
        held = []
        let update = heldUpdate.update(in: results.order)
        heldUpdate = MergedUpdate()
        if hasHeldEnd { tell(.didFinishGathering) }
        hasHeldEnd = false
        if !update.isEmpty { tell(.didUpdate, update) }
    }

    // MARK: Readers

    mutating func add(_ inbox: UpdateInbox) -> Int {
        if let outcome {
            inbox.end(outcome)
            return 0
        }
        lastInbox += 1
        inboxes[lastInbox] = inbox
        return lastInbox
    }

    mutating func remove(_ number: Int) { inboxes[number] = nil }

    private func tell(_ kind: MetadataQuery.Event.Kind, _ update: MetadataUpdate = MetadataUpdate()) {
        for inbox in inboxes.values { inbox.put(kind, update) }
    }
}
