import GRDB
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

// Chunks: small ones in the database, others in files.
extension ContainerService {
    func missingChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        try require(ids)
        return try await cloud.pool.run { [self] in
            let (small, stale) = try cloud.read { db in
                let small = Set(try ids.filter { try self.smallLength(of: $0, db) != nil })
                return (small, try small.filter { try self.isStale($0, db) })
            }
            // The caller is about to rely on the answer: from now on the collector spares the existing chunks.
            if !stale.isEmpty { try cloud.write { try self.touchSmall(stale, $0) } }
            let others = ids.filter { !small.contains($0) }
            let store = try cloud.chunks(of: account)
            try store.touch(others)
            return try store.missing(of: others)
        }
    }

    func unsoundChunks(of ids: [ChunkID]) async throws -> [ChunkID] {
        guard ids.count <= Limits.maximumChunksToVerify else {
            throw UbiquityError(.tooLarge, "one request has at most \(Limits.maximumChunksToVerify) chunks verified")
        }
        guard Set(ids).count == ids.count else {
            throw UbiquityError(.invalid, "a request to verify chunks names one of them twice")
        }
        // A lane of its own: at most one thread reads for verifications.
        return try await cloud.checks.run(for: account) { try await verify(ids) }
    }

    private func verify(_ ids: [ChunkID]) async throws -> [ChunkID] {
        try await cloud.pool.run { [self] in
            let store = try cloud.chunks(of: account)
            var sound = [ChunkID]()
            let unsound = try ids.filter { id in
                do {
                    if try cloud.read({ try self.readSmall(id, $0) }) == nil {
                        _ = try store.read(id)
                        sound.append(id)
                    }
                    return cloud.damagedChunks.contains(id, of: account)
                } catch let error as UbiquityError where error.code != .cancelled {
                    // Damaged, missing, or unreadable.
                    return true
                }
            }
            // A device relies on the answer that a chunk is sound. A chunk sent again is named by past commits, and no
            // coming commit may make it durable.
            do { try store.makeDurable(sound) } catch let lost as MissingChunks { return unsound + lost.ids }
            return unsound
        }
    }

    func upload(_ chunks: [Chunk]) async throws {
        guard chunks.count <= Limits.maximumChunksPerRequest,
            chunks.reduce(0, { $0 + $1.bytes.count }) <= Limits.maximumChunkBytesPerRequest
        else { throw UbiquityError(.tooLarge, "too many chunks, or too many bytes, in one request") }
        try await cloud.pool.run { [self] in try store(chunks) }
    }

    func fetchChunks(_ ids: [ChunkID], receive: @Sendable (Chunk) async throws -> Void) async throws {
        try require(ids)
        var bytes = 0
        var rest = ids[...]
        while !rest.isEmpty {
            let step = try await cloud.pool.run { [self, rest] in try read(rest) }
            for chunk in step.chunks {
                bytes += chunk.bytes.count
                guard bytes <= Limits.maximumChunkBytesPerRequest else {
                    throw UbiquityError(
                        .tooLarge, "one request fetches at most \(Limits.maximumChunkBytesPerRequest) bytes")
                }
                try await receive(chunk)
            }
            if let error = step.error { throw error }
            rest = rest.dropFirst(step.chunks.count)
        }
    }

    private func require(_ ids: [ChunkID]) throws {
        guard ids.count <= Limits.maximumChunksPerRequest else {
            throw UbiquityError(.tooLarge, "one request names at most \(Limits.maximumChunksPerRequest) chunks")
        }
    }

    private struct Step: Sendable {
        var chunks: [Chunk] = []
        /// The error that stopped the step; the chunks before are good.
        var error: (any Error)?
    }

    /// Reads the first chunks of `ids`, up to the size of one step.
    private func read(_ ids: ArraySlice<ChunkID>) throws -> Step {
        let store = try cloud.chunks(of: account)
        return try cloud.read { db in
            var step = Step(), bytes = 0
            for id in ids.prefix(CloudLimits.fetchStepChunks) where bytes < CloudLimits.fetchStepBytes {
                do {
                    let chunk = Chunk(id: id, bytes: try readSmall(id, db) ?? store.read(id))
                    bytes += chunk.bytes.count
                    step.chunks.append(chunk)
                } catch {
                    step.error = error
                    break
                }
            }
            return step
        }
    }

    // MARK: Small chunks

    /// Nil if the chunk does not exist, or is known to be damaged.
    /// - Parameter isSound: whether it was stored just now.
    func smallLength(of id: ChunkID, _ db: Database, isSound: Bool = false) throws -> Int? {
        guard isSound || !cloud.damagedChunks.contains(id, of: account) else { return nil }
        return try Int.fetchOne(
            db.cachedStatement(sql: "SELECT length(bytes) FROM smallChunks WHERE account = ? AND id = ?"),
            arguments: [account, Bytes(id.bytes)])
    }

    private func readSmall(_ id: ChunkID, _ db: Database) throws -> [UInt8]? {
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT bytes FROM smallChunks WHERE account = ? AND id = ?"),
            arguments: [account, Bytes(id.bytes)])
        guard let bytes = row?.bytes(0) else { return nil }
        do { try ChunkCheck.verify(stored: bytes, id) } catch {
            cloud.damagedChunks.note(id, of: account)
            throw error
        }
        return bytes
    }

    /// Whether the row's time is so old that the present request must be recorded.
    private func isStale(_ id: ChunkID, _ db: Database) throws -> Bool {
        let limit = cloud.timekeeper.now().advanced(bySeconds: -CloudLimits.askedAgainAfter)
        let row = try Row.fetchOne(
            db.cachedStatement(sql: "SELECT asked < ? FROM smallChunks WHERE account = ? AND id = ?"),
            arguments: [limit.nanoseconds, account, Bytes(id.bytes)])
        return row?.number(0) == 1
    }

    func touchSmall(_ ids: some Sequence<ChunkID>, _ db: Database) throws {
        let now = cloud.timekeeper.now()
        let stale = now.advanced(bySeconds: -CloudLimits.askedAgainAfter)
        for id in ids {
            try db.cachedStatement(
                sql: "UPDATE smallChunks SET asked = ? WHERE account = ? AND id = ? AND asked < ?"
            ).execute(arguments: [now.nanoseconds, account, Bytes(id.bytes), stale.nanoseconds])
        }
    }

    /// Stores chunks after verifying them. An existing copy is replaced, so that a damaged one is repaired.
    func store(_ chunks: [Chunk]) throws {
        try cloud.requireRoom(for: chunks.reduce(0) { $0 + $1.bytes.count })
        let small = chunks.filter { $0.bytes.count < CloudLimits.smallChunkLength }
        for chunk in small { try ChunkCheck.verify(chunk) }
        let cap = StorageCap(cloud: cloud, account: account)
        try cap.store(chunks.filter { $0.bytes.count >= CloudLimits.smallChunkLength })
        guard !small.isEmpty else { return }
        try cap.write { try self.storeSmall(small, $0) }
        noteSound(small)
    }

    func storeSmall(_ chunks: [Chunk], _ db: Database) throws {
        let now = cloud.timekeeper.now().nanoseconds
        for chunk in chunks {
            try db.cachedStatement(
                sql: "INSERT OR REPLACE INTO smallChunks (account, id, bytes, asked) VALUES (?, ?, ?, ?)"
            ).execute(arguments: [account, Bytes(chunk.id.bytes), Bytes(chunk.bytes), now])
        }
    }

    /// Call it after the transaction has been committed: after a rollback the old copy is as damaged as before.
    func noteSound(_ chunks: [Chunk]) {
        for chunk in chunks { cloud.damagedChunks.noteSound(chunk.id, of: account) }
    }
}
