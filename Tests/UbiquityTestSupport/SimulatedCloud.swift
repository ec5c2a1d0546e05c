internal import UbiquityCloudStore
internal import UbiquityContent
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The cloud of a simulated world: the real commit engine with everything in memory or, in some worlds, the real cloud
/// on a disk (`StoredCloud`).
package final class SimulatedCloud: CloudService {
    private struct State {
        var memory = CloudMemory()
        var listeners: [UInt64: AsyncThrowingStream<Revision, any Error>.Continuation] = [:]
        var nextListener: UInt64 = 0
        var damaged: Set<ChunkID> = []
        var fault: PlantedFault?
        var commits = 0
        /// Whether it is another incarnation since its data was restored from a copy.
        var isRenewed = false

        /// Like `ContainerService.renew` of the real cloud; another number each time.
        /// - Returns: nil if the device knows this history, otherwise whether this has made it another incarnation.
        mutating func check(_ point: FeedPoint, renews: Bool) -> Bool? {
            if let known = point.incarnation, known != memory.incarnation { return false }
            guard memory.isReplaced(point) else { return nil }
            guard renews, point.incarnation != nil || !isRenewed else { return false }
            isRenewed = true
            memory.incarnation = memory.incarnation &* 31 &+ memory.nextMark
            memory.nextMark += 1
            return true
        }
    }

    private let state = Lock(State())
    private let timekeeper: VirtualTimekeeper

    private let container: ContainerID
    private let storedBox = Lock<StoredCloud?>(nil)
    private var stored: StoredCloud? { storedBox.withLock { $0 } }

    package init(world: VirtualWorld, container: ContainerID) {
        timekeeper = VirtualTimekeeper(world)
        self.container = container
    }

    /// From now on the real cloud serves here.
    func keep(on disk: SimulatedDisk, world: VirtualWorld) {
        let cloud = StoredCloud(disk, world: world, container: container) { [weak self] in self?.restart() }
        storedBox.withLock { $0 = cloud }
    }

    func start() async throws { try await stored?.start() }

    func heal() async throws { try await stored?.heal() }

    /// Crashes at the n-th write to its disk from now, if it has one, and restarts after a while.
    package func crash(afterWrites writes: Int, powerLoss: Bool, downFor time: Duration) {
        stored?.crash(afterWrites: writes, powerLoss: powerLoss, downFor: time)
    }

    // MARK: CloudService

    package func open(knowing point: FeedPoint?) async throws -> ContainerDescription {
        if let stored { return try await stored.reaching { try await $0.open(knowing: point) } }
        if let point, state.withLock({ $0.check(point, renews: true) }) == true { restart() }
        return state.withLock { state in
            ContainerDescription(
                container: container, account: "test", incarnation: state.memory.incarnation,
                revision: state.memory.revision,
                usage: CloudUsage(usedBytes: state.memory.usedBytes, quotaBytes: state.memory.quotaBytes))
        }
    }

    package func changes(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        if let stored { return try await stored.reaching { try await $0.changes(after: point, limit: limit) } }
        try requireHistory(of: point, .invalid, renews: false)
        return try state.withLock { try $0.memory.changes(after: point.revision, limit: limit) }
    }

    package func snapshot(after point: FeedPoint, limit: Int) async throws -> ChangePage {
        if let stored { return try await stored.reaching { try await $0.snapshot(after: point, limit: limit) } }
        try requireHistory(of: point, .invalid, renews: false)
        return state.withLock { $0.memory.page(after: point.revision, limit: limit) }
    }

    private func requireHistory(of point: FeedPoint, _ code: UbiquityError.Code, renews: Bool) throws {
        guard let isRenewed = state.withLock({ $0.check(point, renews: renews) }) else { return }
        if isRenewed { restart() }
        throw UbiquityError(code, "the device knows another history than this one at revision \(point.revision)")
    }

    package func commit(_ request: CommitRequest) async throws -> CommitResponse {
        let now = timekeeper.now()
        if let stored {
            let response = try await stored.commit(request)
            for (_, listener) in state.withLock({ $0.listeners.sorted { $0.key < $1.key } }) {
                listener.yield(response.revision)
            }
            return response
        }
        if let known = request.known, state.withLock({ $0.memory.answers[request.id] == nil }) {
            try requireHistory(of: known, .offline, renews: true)
        }
        let (response, listeners) = try state.withLock { state in
            let before = state.memory.revision
            let response = try Self.commit(request, &state, now)
            return (response, state.memory.revision == before ? [] : state.listeners.sorted { $0.key < $1.key })
        }
        for (_, listener) in listeners { listener.yield(response.revision) }
        return response
    }

    private static func commit(
        _ request: CommitRequest, _ state: inout State, _ now: Timestamp
    ) throws -> CommitResponse {
        state.commits += 1
        switch state.fault {
        case .conflictRule: return try state.memory.commit(withoutConflicts(request, state.memory), now: now)
        case .lostUpload where state.commits % lostCommit == 0:
            var forgetful = state.memory
            return try forgetful.commit(request, now: now)
        default: return try state.memory.commit(request, now: now)
        }
    }

    /// With the fault `lostUpload`, one commit in so many is acknowledged and not kept.
    private static let lostCommit = 50

    /// Every edit as if it were made from the current version.
    private static func withoutConflicts(_ request: CommitRequest, _ memory: CloudMemory) -> CommitRequest {
        var request = request
        for position in request.changes.indices {
            guard case .put(var fields) = request.changes[position].action, fields.content?.baseVersion != nil else {
                continue
            }
            fields.content?.baseVersion = memory.items[request.changes[position].id]?.version
            request.changes[position].action = .put(fields)
        }
        return request
    }

    package func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        if let stored { return try await stored.reaching { try await $0.missingChunks(of: ids) } }
        return state.withLock { state in ids.filter { state.memory.chunks[$0] == nil } }
    }

    package func upload(_ chunks: [Chunk]) async throws {
        if let stored { return try await stored.reaching { try await $0.upload(chunks) } }
        for chunk in chunks where ChunkNaming.name(of: chunk.bytes) != chunk.id {
            throw UbiquityError(.invalid, "chunk \(chunk.id) is not what its name says")
        }
        state.withLock { state in for chunk in chunks { state.memory.chunks[chunk.id] = chunk.bytes } }
    }

    package func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        if let stored { return try await stored.reaching { try await $0.fetchChunks(ids, receive: receive) } }
        for id in ids {
            let (bytes, isDamaged) = state.withLock { ($0.memory.chunks[id], $0.damaged.contains(id)) }
            guard let bytes else { throw UbiquityError(.notFound, "the cloud has no chunk \(id)") }
            guard !isDamaged else { throw UbiquityError(.damaged, "the cloud's chunk \(id) is damaged") }
            try await receive(Chunk(id: id, bytes: bytes))
        }
    }

    package func manifest(of version: VersionID) async throws -> Manifest {
        if let stored { return try await stored.reaching { try await $0.manifest(of: version) } }
        return try state.withLock { state in
            guard let record = state.memory.versions[version] else {
                throw UbiquityError(.notFound, "the cloud has no version \(version)")
            }
            guard let manifest = record.manifest else {
                throw UbiquityError(.notUploadedYet, "only the version's size is known")
            }
            return manifest
        }
    }

    package func allVersions(of item: ItemID) async throws -> ItemVersions {
        if let stored { return try await stored.reaching { try await $0.allVersions(of: item) } }
        return try state.withLock { state in
            guard state.memory.items[item] != nil else { throw UbiquityError(.notFound, "there is no such item") }
            let all = state.memory.versions.values.filter { $0.item == item }.map(\.remoteVersion)
            let first = all.filter { $0.kind == .current } + all.filter { $0.kind == .conflict }
            return ItemVersions(
                first + all.filter { $0.kind == .history || $0.kind == .resolved }.sorted { $0.isListed(before: $1) })
        }
    }

    package func trash(in folder: ItemID?, after position: TrashPosition?, limit: Int) async throws -> TrashPage {
        if let stored { return try await stored.reaching { try await $0.trash(in: folder, after: position, limit: limit) } }
        return state.withLock { state in
            let memory = state.memory
            let deleted = memory.items.values.filter { item in
                guard !item.isLive else { return false }
                return folder.map { item.parent == $0 } ?? (memory.items[item.parent]?.isLive ?? true)
            }.map {
                TrashedItem(
                    item: memory.remote($0), deletedAt: $0.deletedAt ?? .zero, device: $0.stamps.existence.device,
                    path: memory.path(of: $0))
            }.sorted { ($0.deletedAt, $0.item.id) > ($1.deletedAt, $1.item.id) }
            let rest = deleted.filter { item in
                position.map { (item.deletedAt, item.item.id) < ($0.deletedAt, $0.id) } ?? true
            }
            return TrashPage(items: Array(rest.prefix(limit)), hasMore: rest.count > limit)
        }
    }

    package func news() async throws -> AsyncThrowingStream<Revision, any Error> {
        let known = try await open().revision
        let (stream, teller) = AsyncThrowingStream<Revision, any Error>.makeStream()
        let (id, revision) = state.withLock { state in
            state.nextListener += 1
            state.listeners[state.nextListener] = teller
            return (state.nextListener, max(known, state.memory.revision))
        }
        teller.onTermination = { [weak self] _ in self?.state.withLock { _ = $0.listeners.removeValue(forKey: id) } }
        teller.yield(revision)
        return stream
    }

    package func usage() async throws -> CloudUsage { try await open().usage }

    // MARK: Faults and administration

    package func setQuota(_ bytes: Int64) { state.withLock { $0.memory.quotaBytes = bytes } }

    /// From now on the account has space for so many more bytes.
    package func fillAccount(but bytes: Int64) {
        state.withLock { $0.memory.quotaBytes = $0.memory.usedBytes + bytes }
    }

    /// Forgets older deletions: a device that has not read them reads the snapshot.
    package func purge(olderThan age: Duration = .zero) {
        let time = timekeeper.now().advanced(bySeconds: -(age / .seconds(1)))
        state.withLock { $0.memory.purge(before: time) }
    }

    /// It has accepted commits of a device that this cloud does not know.
    package func setLastCommit(of device: DeviceID, _ number: Int64) {
        state.withLock { $0.memory.lastCommits[device] = number }
    }

    /// Becomes another cloud at the same address, with nothing in it.
    package func startAnew() {
        state.withLock { state in
            let incarnation = state.memory.incarnation + 1
            state.memory = CloudMemory()
            state.memory.incarnation = incarnation
        }
    }

    /// Its data stays, and becomes another incarnation.
    package func renew() {
        state.withLock { state in
            state.memory.incarnation = state.memory.incarnation &* 31 &+ state.memory.nextMark
            state.memory.nextMark += 1
        }
        restart()
    }

    /// A copy of all its data, for `restore`.
    package func copy() -> CloudCopy { CloudCopy(memory: state.withLock { $0.memory }) }

    /// Its operator restores an older copy of its data.
    package func restore(_ copy: CloudCopy) {
        state.withLock { state in
            let nextMark = state.memory.nextMark
            state.memory = copy.memory
            state.memory.nextMark = nextMark
            state.isRenewed = false
        }
        restart()
    }

    /// Sets the chunks whose copies at the cloud are damaged.
    package func setDamaged(_ ids: Set<ChunkID>) { state.withLock { $0.damaged = ids } }

    /// Forgets chunks that no version needs yet. (Chunks of forgotten versions are kept, to report their bytes at the
    /// end.)
    package func forgetUnusedChunks() {
        state.withLock { state in
            let known = state.memory.forgotten.union(state.memory.versions.values.compactMap(\.manifest))
            let used = Set(known.joined().map(\.id))
            state.memory.chunks = state.memory.chunks.filter { used.contains($0.key) }
        }
    }

    func setFault(_ fault: PlantedFault) { state.withLock { $0.fault = fault } }

    /// Ends all open streams of news.
    package func restart() {
        let listeners = state.withLock { state in
            defer { state.listeners = [:] }
            return state.listeners.sorted { $0.key < $1.key }
        }
        for (_, listener) in listeners {
            listener.finish(throwing: UbiquityError(.offline, "the cloud has gone away"))
        }
    }

    // MARK: Inspection

    package func revision() async throws -> Revision { try await open().revision }

    /// Every live item.
    package func items() async throws -> [RemoteItem] {
        var items = [RemoteItem](), revision = Revision.zero
        while true {
            let page = try await changes(after: revision, limit: Limits.maximumItemsPerPage)
            items += page.items.filter { !$0.isDeleted }
            guard page.hasMore else { return items }
            revision = page.revision
        }
    }

    /// The tree at the cloud.
    package func picture() async throws -> TreePicture {
        let items = try await items()
        let byID = Dictionary(items.map { ($0.id, $0) }) { first, _ in first }
        var picture = TreePicture()
        for item in items where item.id != .root {
            guard let path = path(of: item, byID) else {
                throw UbiquityError(.damaged, "the cloud's item is below nothing: \(item.summary)")
            }
            guard picture.nodes[path] == nil else { throw UbiquityError(.damaged, "two items at the cloud's \(path)") }
            picture.nodes[path] = TreePicture.Node(
                kind: item.kind, mode: item.mode, modifiedAt: item.modifiedAt, xattrs: item.xattrs,
                linkTarget: item.linkTarget, size: item.content?.size ?? 0,
                content: try await fingerprint(of: item.content), conflicts: item.conflicts.map(\.id).sorted())
        }
        return picture
    }

    private func path(of item: RemoteItem, _ byID: [ItemID: RemoteItem]) -> String? {
        var names = ["\(item.name)"], parent = item.parent
        while parent != .root {
            guard let folder = byID[parent], names.count < Limits.maximumDepth else { return nil }
            names.append("\(folder.name)")
            parent = folder.parent
        }
        return names.reversed().joined(separator: "/")
    }

    private func fingerprint(of content: RemoteContent?) async throws -> ChunkID? {
        guard let content else { return nil }
        return try await fingerprint(manifest(of: content.version))
    }

    private func fingerprint(_ manifest: Manifest) async throws -> ChunkID {
        let bytes = Lock<[UInt8]>([])
        for chunk in manifest {
            try await fetchChunks([chunk.id]) { chunk in bytes.withLock { $0 += chunk.bytes } }
        }
        return SimulatedDevice.fingerprint(bytes.withLock { $0 })
    }

    /// One name for all contents with these chunks, whichever device cut them.
    static func name(of manifest: Manifest) -> ChunkID {
        ChunkNaming.name(of: manifest.flatMap { $0.id.bytes })
    }

    /// Every kept content (current, older, in conflict or in the trash), by the name of its bytes and by that of its
    /// chunks.
    package func contents() async throws -> Set<ChunkID> {
        let manifests: Set<Manifest>
        if let stored {
            try stored.requireSound()
            manifests = try await stored.manifests()
        } else {
            manifests = state.withLock { $0.memory.forgotten.union($0.memory.versions.values.compactMap(\.manifest)) }
        }
        var result = Set<ChunkID>()
        for manifest in manifests {
            result.insert(try await fingerprint(manifest))
            result.insert(Self.name(of: manifest))
            for member in try await members(manifest) {
                result.insert(try await fingerprint(member.manifest))
                result.insert(Self.name(of: member.manifest))
            }
        }
        return result
    }

    /// The members, if the content is the state of a package; none for any other content.
    private func members(_ manifest: Manifest) async throws -> [PackageMember] {
        let bytes = Lock<[UInt8]>([])
        for chunk in manifest.prefix(1) {
            try await fetchChunks([chunk.id]) { chunk in bytes.withLock { $0 = chunk.bytes } }
        }
        let head = bytes.withLock { $0 }
        guard head.count > PackageTree.headLength, Array(head.prefix(PackageTree.mark.count)) == PackageTree.mark else {
            return []
        }
        return try PackageTree(list: Array(head.dropFirst(PackageTree.headLength)), manifest).members
            .filter { $0.kind == .file }
    }

    /// The contents of unresolved conflict versions, by the names of the bytes.
    func conflictContents() async throws -> Set<ChunkID> {
        let manifests = state.withLock { state in
            state.memory.versions.values.filter { $0.role == .conflict }.compactMap(\.manifest)
        }
        var result = Set<ChunkID>()
        for manifest in manifests { result.insert(try await fingerprint(manifest)) }
        return result
    }

    /// The unresolved conflict versions.
    package func conflictCount() -> Int {
        state.withLock { $0.memory.versions.values.count { $0.role == .conflict } }
    }
}

/// A copy of a cloud's data.
package struct CloudCopy: Sendable {
    fileprivate let memory: CloudMemory
}
