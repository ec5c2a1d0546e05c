package import UbiquityCore

/// The cloud's records but the bytes of large chunks: SQLite, or tables in memory for tests and the simulator. What is
/// decided with them stands above this seam, once for both.
package protocol MetadataStore: Sendable {
    /// A consistent view.
    func read<T>(_ body: (any MetadataReader) throws -> T) throws -> T

    /// One transaction: all of it or, if `body` throws, nothing. Durable when it returns. One at a time.
    func write<T>(_ body: (any MetadataWriter) throws -> T) throws -> T

    /// Ends; later calls fail.
    func close() throws
}

package protocol MetadataReader {
    /// Drawn when the data was made.
    func incarnation() throws -> UInt64

    func accounts() throws -> [Account]
    func account(named name: String) throws -> Account?
    func account(withToken hash: [UInt8]) throws -> Account?
    func tokens(of account: Int64) throws -> [TokenRecord]

    func container(_ id: ContainerID, of account: Int64) throws -> ContainerRecord?
    func containers(of account: Int64) throws -> [ContainerRecord]

    func item(_ id: ItemID, in container: Int64) throws -> ItemRecord?
    func liveChild(of parent: ItemID, named name: ItemName, in container: Int64) throws -> ItemID?
    func liveChildCount(of parent: ItemID, in container: Int64) throws -> Int
    /// Items with `range.lowerBound` <= revision <= `range.upperBound`, by revision and then id, at most `limit`, with
    /// their current versions.
    func items(
        in container: Int64, revisions range: ClosedRange<Revision>, liveOnly: Bool, limit: Int
    ) throws -> [RemoteItem]

    func version(_ id: VersionID, in container: Int64) throws -> VersionRecord?
    func versions(of item: ItemID, in container: Int64) throws -> [VersionRecord]

    func commit(_ request: RequestID, in container: Int64) throws -> CommitRecord?

    func chunk(_ id: ChunkID, of account: Int64) throws -> ChunkRecord?
    func smallContent(_ row: Int64) throws -> [UInt8]?
    func hasChunks(in pack: PackID) throws -> Bool
    func packs(of account: Int64) throws -> Set<PackID>

    /// Deleted items without any child record, deleted before `time`.
    func expiredItems(in container: Int64, before time: Timestamp, limit: Int) throws -> [ItemRecord]
    /// History versions replaced before `time`.
    func expiredVersions(in container: Int64, before time: Timestamp, limit: Int) throws -> [VersionRecord]
    /// Chunks that no version names, stored and last asked for before `time`.
    func unusedChunks(of account: Int64, before time: Timestamp, limit: Int) throws -> [ChunkRecord]
}

package protocol MetadataWriter: MetadataReader {
    func addAccount(name: String, quotaBytes: Int64, at time: Timestamp) throws -> Account
    /// With its containers, tokens and chunk records.
    func removeAccount(_ number: Int64) throws
    func add(_ token: TokenRecord) throws
    func removeToken(_ hash: [UInt8]) throws

    func addContainer(_ id: ContainerID, to account: Int64) throws -> ContainerRecord
    func update(_ container: ContainerRecord) throws

    /// Inserts or replaces.
    func put(_ item: ItemRecord, in container: Int64) throws
    func remove(_ item: ItemID, in container: Int64) throws
    /// Inserts or replaces.
    func put(_ version: VersionRecord, in container: Int64) throws
    func removeVersion(_ id: VersionID, in container: Int64) throws
    /// Also forgets the commits with a number up to `forgotten`.
    func add(_ commit: CommitRecord, in container: Int64, forgetting forgotten: Int64) throws

    /// Inserts or replaces, all but the references of one that exists.
    func put(_ chunk: ChunkRecord, of account: Int64) throws
    /// Adds to (or takes from) the references of a good chunk. False if there is none.
    func addReferences(_ count: Int64, to chunk: ChunkID, of account: Int64) throws -> Bool
    func markDamaged(_ chunk: ChunkID, of account: Int64) throws
    func markAsked(_ chunk: ChunkID, of account: Int64, at time: Timestamp) throws
    func removeChunk(_ id: ChunkID, of account: Int64) throws
    func addSmallContent(_ bytes: [UInt8]) throws -> Int64
    func removeSmallContent(_ row: Int64) throws
}

/// A container of a metadata store, as the commit engine reads it.
struct StoredContainer: ContainerState {
    let reader: any MetadataReader
    let number: Int64

    func item(_ id: ItemID) throws -> ItemRecord? { try reader.item(id, in: number) }

    func liveChild(of parent: ItemID, named name: ItemName) throws -> ItemID? {
        try reader.liveChild(of: parent, named: name, in: number)
    }

    func liveChildCount(of parent: ItemID) throws -> Int { try reader.liveChildCount(of: parent, in: number) }

    func version(_ id: VersionID) throws -> VersionRecord? { try reader.version(id, in: number) }

    func conflicts(of item: ItemID) throws -> [VersionRecord] {
        try reader.versions(of: item, in: number).filter { $0.role == .conflict }
    }
}
