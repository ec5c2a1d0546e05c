package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// Chunks in memory, for a simulated cloud. It can lose chunks that are not durable and can be damaged, as a disk can.
package final class MemoryChunkStore: ChunkStore {
    private struct Stored {
        var bytes: [UInt8]
        var storedAt: Timestamp
        var isDurable = false
        var isKnownDamaged = false
    }

    private let timekeeper: any Timekeeper
    private let stored = Lock<[ChunkID: Stored]>([:])

    package init(timekeeper: any Timekeeper) { self.timekeeper = timekeeper }

    package func store(_ chunks: [Chunk]) throws {
        for chunk in chunks {
            try ChunkCheck.verify(chunk)
            let now = timekeeper.now()
            stored.withLock { stored in
                let isDurable = stored[chunk.id].map { $0.isDurable && $0.bytes == chunk.bytes } ?? false
                stored[chunk.id] = Stored(bytes: chunk.bytes, storedAt: now, isDurable: isDurable)
            }
        }
    }

    package func missing(of ids: [ChunkID]) throws -> [ChunkID] {
        stored.withLock { stored in ids.filter { stored[$0]?.isKnownDamaged ?? true } }
    }

    package func read(_ id: ChunkID) throws -> [UInt8] {
        guard let bytes = stored.withLock({ $0[id]?.bytes }) else {
            throw UbiquityError(.notFound, "there is no chunk \(id)")
        }
        do {
            try ChunkCheck.verify(stored: bytes, id)
        } catch {
            stored.withLock { $0[id]?.isKnownDamaged = true }
            throw error
        }
        return bytes
    }

    package func length(of id: ChunkID) throws -> Int? {
        stored.withLock { stored in
            stored[id].flatMap { $0.isKnownDamaged ? nil : $0.bytes.count }
        }
    }

    package func makeDurable(_ ids: [ChunkID]) throws {
        let absent = try missing(of: ids)
        guard absent.isEmpty else { throw MissingChunks(ids: absent) }
        stored.withLock { stored in for id in ids { stored[id]?.isDurable = true } }
    }

    package func touch(_ ids: [ChunkID]) throws {
        let now = timekeeper.now()
        stored.withLock { stored in for id in ids { stored[id]?.storedAt = now } }
    }

    package func remove(_ ids: [ChunkID], storedBefore limit: Timestamp) throws {
        stored.withLock { stored in
            for id in ids {
                if let storedAt = stored[id]?.storedAt, storedAt < limit { stored[id] = nil }
            }
        }
    }

    package func forEachStored(_ body: (_ id: ChunkID, _ storedAt: Timestamp) throws -> Void) throws {
        let all = stored.withLock { stored in stored.map { ($0.key, $0.value.storedAt) } }
        for (id, storedAt) in all.sorted(by: { $0.0 < $1.0 }) { try body(id, storedAt) }
    }

    // MARK: Faults

    /// Simulates a power loss: only durable chunks stay.
    package func losePower() {
        stored.withLock { stored in stored = stored.filter { $0.value.isDurable } }
    }

    /// Changes one bit of the stored copy.
    package func damage(_ id: ChunkID) { stored.withLock { $0[id]?.bytes[0] ^= 1 } }
}
