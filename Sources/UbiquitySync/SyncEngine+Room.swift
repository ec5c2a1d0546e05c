internal import Logging
internal import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem

// Space for contents: within the cache limit and above the disk floor.
extension SyncEngine {
    /// Bytes that the eager policy may still download. Downloads in progress count as local. It fetches nothing that
    /// the cache limit or the disk floor would evict again. 0 with the lazy policy.
    func eagerRoom() throws -> Int64 {
        configuration.policy == .eager ? try freeRoom() : 0
    }

    /// Bytes that can be downloaded without an eviction. Small files may go below the disk floor.
    func freeRoom() throws -> Int64 {
        let promised = promisedBytes.withLock { $0 }
        let free = try store.availableBytes() - bytesComing() - promised
        let onDisk = max(free - floor.usual, min(DiskFloor.smallFile, free - DiskFloor.reserve))
        guard let limit = configuration.cacheLimit else { return max(0, onDisk) }
        let inCache = try limit - cachedBytes(ofAtMost: limit) - bytesComing(ofAtMost: limit) - promised
        return max(0, min(onDisk, inCache))
    }

    /// Bytes of local contents. A partial content counts with its present bytes.
    /// - Parameter limit: contents larger than this, in bytes, are left out.
    package func cachedBytes(ofAtMost limit: Int64 = .max) throws -> Int64 {
        let (whole, parts) = try index.read { (try $0.completeBytes(ofAtMost: limit), try $0.partialContents()) }
        return try parts.reduce(whole) { sum, part in
            guard part.size <= limit else { return sum }
            return sum + min(part.size, try store.status(of: part.content)?.allocatedBytes ?? 0)
        }
    }

    /// Bytes that downloads in progress have yet to fetch.
    private func bytesComing(ofAtMost limit: Int64 = .max) -> Int64 {
        downloads.all.filter { $0.content.size <= limit }.reduce(0) { $0 + Self.missing($1) }
    }

    /// The same for background downloads. A download that a program waits for fetches only what the program reads.
    private func backgroundBytesComing() -> Int64 {
        downloads.all.filter(\.isBackground).reduce(0) { $0 + Self.missing($1) }
    }

    private static func missing(_ download: Download) -> Int64 {
        download.content.size - download.content.presentBytes
    }

    package var floor: DiskFloor { DiskFloor(configured: configuration.diskFloor) }

    /// The free bytes of the disk if they are below the floor, else nil.
    package func freeBytesBelowFloor() throws -> Int64? {
        let free = try store.availableBytes()
        return free < floor.usual ? free : nil
    }

    /// Runs `begin`, which begins a background download, if the whole content fits or space can be freed for it. A
    /// content that does not fit would be downloaded in part, given up, and downloaded again.
    /// - Parameter floor: bytes to keep free on the disk.
    /// - Throws: `.noSpace`.
    func withRoom<Result: Sendable>(
        for size: Int64, above floor: Int64, _ begin: () async throws -> Result
    ) async throws -> Result {
        try await pool.run { [self] in
            guard try !promiseRoom(for: size, above: floor) else { return }
            try makeRoom(for: size, wholeAbove: floor)
            guard try !promiseRoom(for: size, above: floor) else { return }
            throw try self.floor.refusal(of: size, free: store.availableBytes(), floor: floor)
        }
        defer { promisedBytes.withLock { $0 -= size } }
        return try await begin()
    }

    /// Promises space to a background download. A download that a program waits for fetches only what is read and gets
    /// no promise.
    private func promiseRoom(for size: Int64, above floor: Int64) throws -> Bool {
        let free = try store.availableBytes() - floor
        let coming = backgroundBytesComing()
        return promisedBytes.withLock { promised in
            guard promised + coming + size <= free else { return false }
            promised += size
            return true
        }
    }

    /// Evicts the least recently used contents to free space for one of `size` bytes. If too little can be evicted, the
    /// download proceeds all the same: the limits are soft, and only a full disk refuses.
    /// - Parameter wholeFloor: bytes to keep free on the disk, for a content that is useful only as a whole. If it does
    ///   not fit even after eviction, nothing is evicted. Without it, space is freed for the first bytes alone, because
    ///   a program may read only the beginning. Later bytes evict others when they arrive (`keepWithinLimits`,
    ///   `makeRoomNow`).
    func makeRoom(for size: Int64, wholeAbove wholeFloor: Int64? = nil) throws {
        guard size > 0 else { return }
        let needed = wholeFloor == nil ? min(size, Int64(SyncLimits.followingFetchBytes)) : size
        let floor = wholeFloor ?? floor.usual
        var disk = try floor + backgroundBytesComing() + needed - store.availableBytes(), cache: Int64 = 0
        if wholeFloor != nil {
            disk += promisedBytes.withLock { $0 }
            guard try disk <= 0 || disk <= evictableBytes(above: floor) else { return }
        }
        // A file larger than the cache is evicted itself when it closes, so it evicts no others.
        if let limit = configuration.cacheLimit, size <= limit {
            cache = try expectedBytes(with: needed, limit) - limit
        }
        // Evict somewhat more: the search for candidates costs more the more contents there are.
        let slack = (configuration.cacheLimit ?? configuration.diskFloor) / 20
        try evictLeastUsed(disk: disk, above: floor, cache: cache, slack: slack)
    }

    /// Frees space for the next fetch and for some that follow it, since a request that meets a full disk must be
    /// repeated. The request is sent even if nothing can be evicted.
    /// - Parameter count: bytes that this lane is about to fetch. They are included in `fetchingBytes`.
    func makeRoomAhead(of count: Int64, _ download: Download) {
        // A search through everything for each few MiB would take longer than their download.
        guard timekeeper.now() >= nextRoomAhead.withLock({ $0 }) else { return }
        do {
            let short = try floor.usual + fetchingBytes.withLock { $0 } - store.availableBytes()
            let following = min(max(0, Self.missing(download) - count), SyncLimits.roomAhead)
            if try short <= 0 || evictLeastUsed(disk: short + following, above: floor.usual) { return }
        } catch {
            logger.warning("cannot free space for a download", metadata: ["reason": "\(error)"])
        }
        let next = timekeeper.now().advanced(bySeconds: SyncLimits.maintenanceInterval / .seconds(1))
        nextRoomAhead.withLock { $0 = next }
    }

    /// The bytes that can be evicted to restore the floor.
    private func evictableBytes(above floor: Int64) throws -> Int64 {
        let kept = keptContents(above: floor)
        let (whole, parts) = try index.read {
            (try $0.evictableBytes(keeping: kept), try $0.evictableParts(keeping: kept))
        }
        return try parts.reduce(whole) { sum, part in
            guard downloads.download(of: part.key) == nil else { return sum }
            return sum + (try store.status(of: part.content)?.allocatedBytes ?? 0)
        }
    }

    /// Contents that an eviction for this floor keeps. If the reserve itself is short, only ignore files are kept. With
    /// the eager policy small files are kept: they would be downloaded again at once.
    private func keptContents(above floor: Int64) -> KeptContents {
        guard floor > DiskFloor.reserve else { return .none }
        return KeptContents(
            size: configuration.policy == .eager ? DiskFloor.smallFile : 0,
            requestedSince: timekeeper.now().advanced(bySeconds: -DiskFloor.requestedStay))
    }

    /// The current space for contents.
    func diskRoom() throws -> DiskRoom {
        try DiskRoom(
            floor: floor, free: store.availableBytes(), evictable: evictableBytes(above: floor.usual),
            evictableForReserve: evictableBytes(above: DiskFloor.reserve))
    }

    /// The reason why a content does not fit for a background download, or nil if it fits.
    /// - Parameter others: bytes to be downloaded before it.
    package func refusalForRoom(of row: ItemRow, after others: Int64) throws -> UbiquityError? {
        guard try row.size + others > freeRoom() else { return nil }
        let room = try diskRoom()
        guard !room.fits(row, size: row.size, after: others) else { return nil }
        return floor.refusal(of: row.size, free: room.free, floor: floor.bytes(for: row, size: row.size))
    }

    /// Whether any content can be evicted.
    func hasEvictable() throws -> Bool {
        let (isWhole, parts) = try index.read { (try $0.hasEvictable(), try $0.evictableParts()) }
        return isWhole || parts.contains { downloads.download(of: $0.key) == nil }
    }

    /// Frees space for a part of a content that is to be written at once, in bytes.
    /// - Returns: whether the part fits.
    func makeRoomNow(for bytes: Int64) throws -> Bool {
        try makeRoom(for: bytes)
        return try store.availableBytes() >= DiskFloor.reserve + bytes
    }

    /// Local bytes after a download of `size` bytes. Counts anew only near the limit, since a count reads every item.
    private func expectedBytes(with size: Int64, _ limit: Int64) throws -> Int64 {
        let expected = bytesHere.withLock { bytes -> Int64? in
            guard let here = bytes, here + size <= limit else { return nil }
            bytes = here + size
            return here + size
        }
        if let expected { return expected }
        let here = try cachedBytes(ofAtMost: limit) + bytesExpected(ofAtMost: limit)
        bytesHere.withLock { $0 = here + size }
        return here + size
    }

    /// Bytes that downloads in progress have yet to fetch and for which space was freed (`makeRoom`).
    private func bytesExpected(ofAtMost limit: Int64) -> Int64 {
        downloads.all.reduce(0) { sum, download in
            guard download.content.size <= limit else { return sum }
            let missing = Self.missing(download)
            return sum + (download.isBackground ? missing : min(missing, Int64(SyncLimits.followingFetchBytes)))
        }
    }

    /// Keeps the disk floor while programs write. Maintenance is too slow for a program that fills the disk in seconds.
    /// With passthrough only the kernel sees the writes, and it answers that the disk is full.
    func watchRoom() async {
        guard configuration.diskFloor > 0 else { return }
        var watch = RoomWatch(), isWritten = false
        while !Task.isCancelled {
            do {
                if !isWritten {
                    await roomSignal.wait()
                    watch = RoomWatch()
                }
                try await timekeeper.sleep(for: watch.pause)
                (watch, isWritten) = try await pool.run { [watch] in try self.lookAtRoom(watch) }
            } catch {
                guard !Task.isCancelled else { return }
                isWritten = false
                logger.warning("cannot measure the free space on the disk", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// - Returns: the next state of the watch, and whether any program has a file open for writing.
    private func lookAtRoom(_ watch: RoomWatch) throws -> (RoomWatch, isWritten: Bool) {
        let start = timekeeper.now()
        let free = try store.availableBytes()
        // The eager policy would fill any space beyond the floor at once, and it would have to be freed again.
        let isLazy = configuration.policy == .lazy
        let floor = floor.usual
        let ahead = isLazy ? watch.ahead(of: free, floor: floor) : 0
        let excess = floor + ahead - free
        try evictLeastUsed(disk: excess, above: floor)
        let left = try excess > 0 ? store.availableBytes() : free
        let isWritten = try index.peek { try $0.hasWriters() }
        let took = Duration.nanoseconds(timekeeper.now().nanoseconds - start.nanoseconds)
        return (watch.looked(free: free, left: left, took: took), isWritten)
    }

    /// Evicts contents above the cache limit or below the disk floor.
    func keepWithinLimits() throws {
        var cache: Int64 = 0
        if let limit = configuration.cacheLimit {
            // A file larger than the cache is evicted itself as soon as possible, and evicts no others.
            let isAny = try index.read { try !$0.evictable(largerThan: limit, limit: 1).isEmpty }
            if isAny { try evict(largerThan: limit) }
            let here = try cachedBytes(ofAtMost: limit), expected = here + bytesExpected(ofAtMost: limit)
            bytesHere.withLock { $0 = expected }
            cache = here - limit
        }
        try evictLeastUsed(disk: floor.usual - store.availableBytes(), above: floor.usual, cache: cache)
    }

    /// Bytes on the disk. A partial content may take less than its size.
    private func bytesOnDisk(of row: ItemRow) throws -> Int64 {
        guard row.contentState == .partial, let content = row.content else { return row.size }
        return min(row.size, try store.status(of: content)?.allocatedBytes ?? 0)
    }

    /// Evicts contents until the given bytes of the disk and of the cache limit are free. Requested contents are
    /// evicted only for the cache limit, or if the disk would otherwise have less than its reserve.
    /// - Parameters:
    ///   - floor: bytes to be free on the disk afterwards.
    ///   - slack: additional bytes to evict if there are enough small contents.
    /// - Returns: whether anything was evicted.
    @discardableResult
    private func evictLeastUsed(disk: Int64, above floor: Int64, cache: Int64 = 0, slack: Int64 = 0) throws -> Bool {
        guard disk > 0 || cache > 0, mayEvict else { return false }
        openItems?.noteUses()
        let forFloor = try evictInOrder(disk, slack: slack, keeping: keptContents(above: floor))
        let left = max(disk - (floor - DiskFloor.reserve), cache) - forFloor
        let forLimits = try evictInOrder(left, slack: slack, keeping: .none)
        return forFloor + forLimits > 0
    }

    /// - Returns: the evicted bytes.
    private func evictInOrder(_ bytes: Int64, slack: Int64, keeping kept: KeptContents) throws -> Int64 {
        guard bytes > 0 else { return 0 }
        var left = bytes, hasFreed = false, last: ItemRow?
        defer { if hasFreed { noteFreed() } }
        for _ in 0..<SyncLimits.pagesOfEviction {
            // Programs wait for space: free what was evicted before evicting more.
            if hasFreed { noteFreed() }
            hasFreed = false
            // All rows of a page may be shown or open, so read several pages.
            let rows = try index.read { [last] reader in
                try reader.evictable(after: last, keeping: kept, limit: SyncLimits.rowsPerRead)
            }
            for row in rows where row.entry?.name != IgnoreRules.fileName {
                guard left > 0 || row.size - left <= slack else { return bytes - left }
                guard let freed = try evictUnused(row) else { continue }
                (left, hasFreed) = (left - freed, true)
            }
            last = rows.last
            guard last != nil else { break }
        }
        return bytes - left
    }

    /// While signed out, the cloud would refuse every confirmation.
    private var mayEvict: Bool { connection.status.phase != .signedOut }

    private func evict(largerThan limit: Int64) throws {
        guard mayEvict else { return }
        openItems?.noteUses()
        var last: ItemRow?
        for _ in 0..<SyncLimits.pagesOfEviction {
            let rows = try index.read { [last] reader in
                try reader.evictable(after: last, largerThan: limit, limit: SyncLimits.rowsPerRead)
            }
            for row in rows where row.entry?.name != IgnoreRules.fileName { _ = try evictUnused(row) }
            last = rows.last
            guard last != nil else { return noteFreed() }
        }
        noteFreed()
    }

    /// - Returns: the bytes freed on the disk. Nil if the content is in use, not confirmed by the cloud, or already
    ///   evicted.
    private func evictUnused(_ row: ItemRow) throws -> Int64? {
        // A download in progress is given up by its readers, not by eviction.
        if openItems?.isShown(row.key) ?? false || downloads.download(of: row.key) != nil { return nil }
        do {
            let bytes = try bytesOnDisk(of: row)
            return try evict(row.key) ? bytes : nil
        } catch let error as UbiquityError where error.code != .io {
            return nil
        }
    }

    private func noteFreed() {
        do { try removeRetired() } catch {
            logger.warning("cannot free the space of evicted contents", metadata: ["reason": "\(error)"])
        }
    }
}
