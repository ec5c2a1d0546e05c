import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Decisions about versions, and their completion.
struct VersionDecisions: MountCommand {
    /// How long a decision waits for other claims, and then for its completion.
    static let limit: Duration = .seconds(10)

    let parts: MountParts

    /// Records decisions. Writes of programs up to now count as older than the decision, also in files still open.
    /// - Returns: the version that a restoration makes.
    func decide(
        _ actions: [(kind: PendingVersionAction.Kind, version: VersionID)], of key: ItemKey
    ) async throws -> VersionID? {
        guard !actions.isEmpty else { return nil }
        return try await pool.run { [parts] in
            if let row = try parts.index.row(key: key) { try parts.fileSystem.recordWrites(to: row.ino) }
            return try parts.index.decide(actions, of: key)
        }
    }

    /// Runs `body` under a claim on the item, after its presenters have saved. Throws `.busy` if the claim is not
    /// granted.
    func claiming<R: Sendable>(
        _ row: ItemRow, for process: Int32?, _ body: @Sendable () async throws -> R
    ) async throws -> R {
        let coordination = parts.coordination
        let request = ClaimRequest(
            owner: process.map(ClaimOwner.program) ?? .system,
            intents: [ClaimIntent(row.claimTarget, .writing(.forMerging))], waitingTime: Self.limit)
        let claim: ClaimID
        do { claim = try await coordination.claim(request) } catch let failure as ClaimFailure {
            let error = failure.error(at: row.entry?.name.description ?? "")
            // Must not look like a timeout of the cloud.
            guard error.code == .timedOut else { throw error }
            throw UbiquityError(.busy, error.message, at: error.place, remedy: error.remedy)
        }
        defer { coordination.end(claim) }
        return try await body()
    }

    /// Waits until the cloud has the decision and the file shows it.
    /// - Parameter version: the version that a restoration makes.
    /// - Returns: what the decision still waits for; it continues by itself. Nil if the file shows it.
    func waitUntilShown(_ row: ItemRow, _ version: VersionID?) async throws -> VersionAwaits? {
        guard engine.connection.isOnline else { return .cloud }
        let last = Lock<Progress>(.under(.cloud))
        _ = try await engine.wait(atMost: Self.limit) { [self] in
            let now = try await pool.run { [self] in try progress(of: row, version) }
            last.withLock { $0 = now }
            if case .over = now { return true }
            return false
        }
        switch last.withLock({ $0 }) {
        case .under(let awaited): return awaited
        case .over(let end): return end
        }
    }

    private enum Progress: Sendable {
        case under(VersionAwaits)
        case over(VersionAwaits?)
    }

    private func progress(of row: ItemRow, _ version: VersionID?) throws -> Progress {
        try parts.index.read { reader in
            guard try reader.decidedVersions(of: row.id).isEmpty else { return .under(.cloud) }
            guard let version, let now = try reader.row(key: row.key), now.kind == .file else { return .over(nil) }
            let current = try reader.remote(id: now.id)?.content?.version
            // A version with the same bytes as the current one makes no new version.
            if current == row.version, now.version == row.version, !now.dirty.contains(.content) { return .over(nil) }
            guard current == version, !now.dirty.contains(.content) else { return .over(.laterEdit) }
            if now.version == version { return .over(nil) }
            return .under(now.isWriting ? .writer : .content)
        }
    }
}
