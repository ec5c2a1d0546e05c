import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

// Decisions about versions, and what becomes of them.
extension MountController {
    /// A decision waits so long for others, and then so long until it is carried out.
    static let decisionLimit: Duration = .seconds(10)

    /// What programs have written till now is older than the decision, also where they have the file open still.
    /// - Returns: the version that a restoration makes.
    func decide(
        _ actions: [(kind: PendingVersionAction.Kind, version: VersionID)], of key: ItemKey
    ) async throws -> VersionID? {
        guard !actions.isEmpty else { return nil }
        return try await pool.run { [parts] in
            if let row = try parts.index.row(key: key) { try parts.fileSystem.noteWrites(to: row.ino) }
            return try parts.index.decide(actions, of: key)
        }
    }

    /// Runs `body` while nobody else uses the item, after those who show it have saved. Throws `.busy` if that does not
    /// come to be.
    func claiming<R: Sendable>(
        _ row: ItemRow, for process: Int32?, _ body: @Sendable () async throws -> R
    ) async throws -> R {
        let coordination = parts.coordination
        let request = ClaimRequest(
            owner: process.map(ClaimOwner.program) ?? .system,
            intents: [ClaimIntent(row.claimTarget, .writing(.forMerging))], waitingTime: Self.decisionLimit)
        let claim: ClaimID
        do { claim = try await coordination.claim(request) } catch let failure as ClaimFailure {
            let error = failure.error(at: row.entry?.name.description ?? "")
            // Not to be taken for the cloud's time that is over.
            guard error.code == .timedOut else { throw error }
            throw UbiquityError(.busy, error.message, at: error.place, remedy: error.remedy)
        }
        defer { coordination.end(claim) }
        return try await body()
    }

    /// Waits until the cloud knows what was decided, and the file shows it.
    /// - Parameter version: that a restoration makes.
    /// - Returns: what it waits for if that takes its time: it goes on by itself. Nil if it is shown.
    func waitUntilShown(_ row: ItemRow, _ version: VersionID?) async throws -> VersionAwaits? {
        guard engine.connection.isOnline else { return .cloud }
        let last = Lock<Progress>(.under(.cloud))
        _ = try await engine.wait(atMost: Self.decisionLimit) { [self] in
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
            // Of a version with the bytes of the current one nothing is made.
            if current == row.version, now.version == row.version, !now.dirty.contains(.content) { return .over(nil) }
            guard current == version, !now.dirty.contains(.content) else { return .over(.laterEdit) }
            if now.version == version { return .over(nil) }
            return .under(now.isWriting ? .writer : .content)
        }
    }
}
