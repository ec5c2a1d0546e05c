package import UbiquityCore
package import UbiquityWire

/// Where the cloud keeps chunks.
///
/// Every call blocks its thread, so they are run by a `BlockingPool`; any number of threads may call at a time.
///
/// A commit relies on chunks in this order: `touch` (from here on collection spares them), `makeDurable` (they are
/// here and survive a power loss), then its own record. The collector asks `forEachStored`, takes away what some
/// record names and calls `remove(_:storedBefore:)` with the same limit: what has been touched since then stays.
package protocol ChunkStore: Sendable {
    /// Stores chunks. One that is stored already is left as it is and counts as stored now; a stored copy that is not
    /// what the id says is replaced.
    /// - Throws: `.invalid` if a chunk is empty, too long or not what its id says; `.noSpace`. Chunks before the one
    ///   that failed are stored then, the others are not there at all.
    func store(_ chunks: [Chunk]) throws

    /// Those of `ids` that cannot be had here, in the same order: never stored, removed, or known to be damaged.
    /// Looks at the place, not into the content.
    func missing(of ids: [ChunkID]) throws -> [ChunkID]

    /// The content, verified.
    /// - Throws: `.notFound`; `.damaged` if the stored copy is not what the id says.
    func read(_ id: ChunkID) throws -> [UInt8]

    /// Length in bytes; nil if the chunk is missing.
    func length(of id: ChunkID) throws -> Int?

    /// Returns only when these chunks survive a power loss.
    /// - Throws: `MissingChunks` if some are not here (any more): they must be uploaded again.
    func makeDurable(_ ids: [ChunkID]) throws

    /// Makes these count as stored now. Ids that are not here are passed over.
    func touch(_ ids: [ChunkID]) throws

    /// Removes those that were last stored or touched before `limit`. A `touch` comes wholly before or wholly after.
    func remove(_ ids: [ChunkID], storedBefore limit: Timestamp) throws

    /// Calls `body` with every chunk that is here and the time when it was last stored or touched. What is stored or
    /// removed meanwhile may be left out or come twice.
    func forEachStored(_ body: (_ id: ChunkID, _ storedAt: Timestamp) throws -> Void) throws
}

extension ChunkStore {
    /// Removes these, however new they are.
    package func remove(_ ids: [ChunkID]) throws {
        try remove(ids, storedBefore: Timestamp(nanoseconds: .max))
    }
}
