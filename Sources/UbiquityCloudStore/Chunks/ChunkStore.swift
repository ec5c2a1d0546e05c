package import UbiquityCore
package import UbiquityWire

/// Storage for the cloud's chunks.
///
/// Every call blocks its thread, so a `BlockingPool` runs them; any number of threads may call at a time.
///
/// A commit secures its chunks in this order: `touch` (from here on the collector spares them), `makeDurable` (they
/// exist and survive a power loss), then its own record. The collector calls `forEachStored`, leaves out the chunks
/// that a record names, and calls `remove(_:storedBefore:)` with the same time limit. So a chunk touched since then
/// stays.
package protocol ChunkStore: Sendable {
    /// Stores chunks. An existing chunk is left as it is and counts as stored now; a stored copy that does not match
    /// its id is replaced.
    /// - Throws: `.invalid` if a chunk is empty, too long or does not match its id; `.noSpace`. The chunks before the
    ///   failed one are stored then, the others are not.
    func store(_ chunks: [Chunk]) throws

    /// The unavailable ones of `ids`, in the same order: never stored, removed, or known to be damaged. Checks that the
    /// file exists and does not read it.
    func missing(of ids: [ChunkID]) throws -> [ChunkID]

    /// The verified content.
    /// - Throws: `.notFound`; `.damaged` if the stored copy does not match the id.
    func read(_ id: ChunkID) throws -> [UInt8]

    /// Length in bytes; nil if the chunk is missing.
    func length(of id: ChunkID) throws -> Int?

    /// Returns only when these chunks survive a power loss.
    /// - Throws: `MissingChunks` if some do not exist (any more): they must be uploaded again.
    func makeDurable(_ ids: [ChunkID]) throws

    /// Makes these count as stored now. Missing ids are skipped.
    func touch(_ ids: [ChunkID]) throws

    /// Removes the chunks that were last stored or touched before `limit`. A concurrent `touch` happens entirely before
    /// or entirely after.
    func remove(_ ids: [ChunkID], storedBefore limit: Timestamp) throws

    /// Calls `body` with every stored chunk and the time when it was last stored or touched. Chunks stored or removed
    /// meanwhile may be omitted or come twice.
    func forEachStored(_ body: (_ id: ChunkID, _ storedAt: Timestamp) throws -> Void) throws
}

extension ChunkStore {
    /// Removes these chunks, however new they are.
    package func remove(_ ids: [ChunkID]) throws {
        try remove(ids, storedBefore: Timestamp(nanoseconds: .max))
    }
}
