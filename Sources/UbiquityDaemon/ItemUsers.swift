import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Tells the sync engine which files programs have open, and asks clients that show or have claimed items.
struct ItemUsers: OpenItems {
    let fileSystem: ContainerFileSystem
    let index: ItemIndex
    let coordination: Coordination
    let presenters: PresenterPump
    let pool: BlockingPool

    /// A new content waits that long for a client that writes: till then the old one is here.
    private static let contentWaitingTime: Duration = .seconds(3600)
    /// Deletions of others wait that long for clients' claims: what comes after them waits, too.
    private static let deletionWaitingTime: Duration = .seconds(10)

    func whileClosed<R>(_ key: ItemKey, _ body: () throws -> R) throws -> R? { try fileSystem.whileClosed(key, body) }

    func noteUses() { fileSystem.noteUses() }

    func isShown(_ key: ItemKey) -> Bool {
        guard coordination.hasPresenters else { return false }
        guard let row = try? index.row(key: key) else { return true }
        return coordination.isPresented(row.claimTarget)
    }

    func isUnnamed(_ content: ContentID) -> Bool { fileSystem.isUnnamed(content) }

    func mayBeUsed(_ key: ItemKey) -> Bool { !coordination.isQuiet }

    func isBeingWritten(_ row: ItemRow) -> Bool { coordination.isBeingWritten(row.claimTarget) }

    func prepare(for changes: [ComingChange]) async throws -> (@Sendable () -> Void)? {
        guard !coordination.isQuiet else { return nil }
        let intents = try await pool.run { try changes.compactMap(intent) }
        guard let first = intents.first else { return nil }
        let isContent = first.access == .writing(.forMerging)
        let request = ClaimRequest(
            owner: .system, intents: Array(intents.prefix(ArbiterLimits.intents)),
            waitingTime: isContent ? Self.contentWaitingTime : Self.deletionWaitingTime)
        do {
            let claim = try await coordination.claim(request)
            return { [presenters] in presenters.end(claim) }
        } catch let failure as ClaimFailure {
            throw failure.error(at: first.target.entry?.name.description ?? "")
        }
    }

    private func intent(_ change: ComingChange) throws -> ClaimIntent? {
        switch change {
        case .content(let key):
            return try index.row(key: key).map { ClaimIntent($0.claimTarget, .writing(.forMerging)) }
        case .deletion(let id):
            // What was deleted here comes back through the feed: there is nothing left to let go of.
            guard let row = try index.read({ try $0.row(id: id) }), !row.isDeleted else { return nil }
            return ClaimIntent(row.claimTarget, .writing(.forDeleting))
        }
    }
}
