import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Tells the sync engine which files programs have open, and claims items from clients and presenters.
struct ItemUsers: OpenItems {
    let fileSystem: ContainerFileSystem
    let index: ItemIndex
    let coordination: Coordination
    let presenters: PresenterPump
    let pool: BlockingPool

    /// How long a new content waits for a client that writes; until then the old content stays.
    private static let contentWaitingTime: Duration = .seconds(3600)
    /// How long remote deletions and moves wait for clients' claims. Later changes wait behind them.
    private static let pageWaitingTime: Duration = .seconds(10)
    /// Claims requested at one time, if one claim for all of them fails.
    private static let claimsAtOneTime = 64

    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? { try fileSystem.whileClosed(key, body) }

    func noteUses() { fileSystem.flushUses() }

    func isShown(_ key: ItemKey) -> Bool {
        guard coordination.hasPresenters else { return false }
        guard let row = try? index.row(key: key) else { return true }
        return coordination.isPresented(row.claimTarget)
    }

    func isUnnamed(_ content: ContentID) -> Bool { fileSystem.isUnnamed(content) }

    func mayBeUsed(_ key: ItemKey) -> Bool { !coordination.isQuiet }

    func isBeingWritten(_ row: ItemRow) -> Bool { coordination.isBeingWritten(row.claimTarget) }

    func writers(of row: ItemRow) -> [String] {
        let names = coordination.writers(of: row.claimTarget).map { writer in
            switch writer {
            case .client(let name): name
            case .program(let process): Self.name(of: process)
            }
        }
        return Set(names).sorted()
    }

    /// The name of a program, as the kernel shows it, or its number if the program has ended.
    private static func name(of process: Int32) -> String {
        guard process > 0, let name = try? SmallFile.read("/proc/\(process)/comm", limit: 64) else {
            return "process \(process)"
        }
        return String(decoding: name.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }

    func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)? {
        guard !coordination.isQuiet else { return nil }
        let intents = try await pool.run { try self.intents(changes) }
        guard let first = intents.first else { return nil }
        await presenters.catchUp()
        if case .content = changes[0] {
            do {
                return ending([try await claim(intents, Self.contentWaitingTime)])
            } catch let failure as ClaimFailure {
                throw failure.error(at: first.target.entry?.name.description ?? "")
            }
        }
        do { return ending([try await claim(intents, Self.pageWaitingTime)]) } catch {
            guard !Task.isCancelled else { throw CancellationError() }
            // One of them is in use, or its presenter refuses: ask for the others separately.
            return ending(await claimEach(intents))
        }
    }

    private func ending(_ claims: [ClaimID]) -> @Sendable () -> Void {
        { [presenters] in for claim in claims { presenters.end(claim) } }
    }

    private func claim(_ intents: [ClaimIntent], _ waitingTime: Duration) async throws -> ClaimID {
        let request = ClaimRequest(
            owner: .system, intents: Array(intents.prefix(ArbiterLimits.intents)), waitingTime: waitingTime)
        return try await coordination.claim(request)
    }

    /// The claims that can be granted without waiting for other claims.
    private func claimEach(_ intents: [ClaimIntent]) async -> [ClaimID] {
        await withTaskGroup(of: ClaimID?.self) { group in
            var claims = [ClaimID?]()
            for (number, intent) in intents.enumerated() {
                if number >= Self.claimsAtOneTime, let done = await group.next() { claims.append(done) }
                group.addTask { try? await claim([intent], .zero) }
            }
            for await claim in group { claims.append(claim) }
            return claims.compactMap { $0 }
        }
    }

    /// The claims needed; one for a package.
    private func intents(_ changes: [ComingChange]) throws -> [ClaimIntent] {
        var known = Set<ClaimIntent>()
        return try changes.compactMap(intent).filter { known.insert($0).inserted }
    }

    private func intent(_ change: ComingChange) throws -> ClaimIntent? {
        switch change {
        case .place(let id, let place): return try intent(toPlace: id, at: place)
        case .content(let key):
            return try index.row(key: key).map { ClaimIntent($0.claimTarget, .writing(.forMerging)) }
        case .deletion(let id):
            // A deletion made on this device returns through the feed: no claim is needed for it.
            guard let row = try index.read({ try $0.row(id: id) }), !row.isDeleted else { return nil }
            return ClaimIntent(row.claimTarget, .writing(.forDeleting))
        }
    }

    /// (The contents of a package are placed together with the rest of its new state, and claimed then.)
    private func intent(toPlace id: ItemID, at place: Place) throws -> ClaimIntent? {
        try index.read { reader in
            guard let row = try reader.row(id: id), !row.isDeleted, !row.isExcluded, let entry = row.entry,
                row.dirty.isDisjoint(with: [.place, .created]),
                try entry.name != place.name || reader.row(id: place.parent)?.key != entry.parent
            else { return nil }
            var finder = PackageFinder(reader, index)
            guard try finder.package(ofFolder: entry.parent) == nil else { return nil }
            return ClaimIntent(row.claimTarget, .writing(.forMoving))
        }
    }
}
