import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Evicts items after asking their presenters.
struct AskingEviction: Sendable {
    let engine: SyncEngine
    let index: ItemIndex
    let coordination: Coordination
    let pool: BlockingPool

    /// - Returns: whether the item had content on this device.
    /// - Throws: the errors of `SyncEngine.evict`, and `.busy` with the reason of a presenter that refuses.
    @discardableResult
    func evict(_ key: ItemKey) async throws -> Bool {
        let row = try await pool.run { [index] in try index.row(key: key) }
        guard let row else { throw UbiquityError(.notFound, "the item is gone") }
        let claim: ClaimID
        do {
            claim = try await coordination.claim(
                ClaimRequest(owner: .system, intents: [ClaimIntent(row.claimTarget, .evicting)]))
        } catch let failure as ClaimFailure {
            throw failure.error(at: row.entry?.name.description ?? "")
        }
        defer { coordination.end(claim) }
        return try await pool.run { [engine] in try engine.evict(key) }
    }
}
