internal import Logging
internal import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem

// The room that contents may take: below the cache limit, above the disk floor.
extension SyncEngine {
    /// Bytes that the eager policy may still bring here, those under way counted as here: what eviction would take
    /// again, because of the cache limit or the disk floor, is not fetched. 0 with the lazy policy.
    func eagerRoom() throws -> Int64 {
        configuration.policy == .eager ? try freeRoom() : 0
    }

    /// Bytes that can come without another content having to go. Small files pass the disk floor.
    func freeRoom() throws -> Int64 {
        let promised = promisedBytes.withLock { $0 }
        let free = try store.availableBytes() - bytesComing() - promised
        let onDisk = max(free - floor.usual, min(DiskFloor.smallFile, free - DiskFloor.reserve))
        guard let limit = configuration.cacheLimit else { return max(0, onDisk) }
        let inCache = try limit - cachedBytes(ofAtMost: limit) - bytesComing(ofAtMost: limit) - promised
        return max(0, min(onDisk, inCache))
    }

    /// Bytes of contents that are here: of those that came in part, what has come.
    /// - Parameter limit: what is larger, in bytes, is left out.
    package func cachedBytes(ofAtMost limit: Int64 = .max) throws -> Int64 {
        let (whole, parts) = try index.read { (try $0.completeBytes(ofAtMost: limit), try $0.partialContents()) }
        return try parts.reduce(whole) { sum, part in
            guard part.size <= limit else { return sum }
            return sum + min(part.size, try store.status(of: part.content)?.allocatedBytes ?? 0)
        }
    }

    /// Bytes of downloads under way that have not come yet.
    private func bytesComing(ofAtMost limit: Int64 = .max) -> Int64 {
        downloads.all.filter { $0.content.size <= limit }.reduce(0) { $0 + Self.missing($1) }
    }

    /// The same of those that no program waits for: of the others no more may come than is read.
    private func backgroundBytesComing() -> Int64 {
        downloads.all.filter(\.isBackground).reduce(0) { $0 + Self.missing($1) }
    }

    private static func missing(_ download: Download) -> Int64 {
        download.content.size - download.content.presentBytes
    }

    package var floor: DiskFloor { DiskFloor(configured: configuration.diskFloor) }

    /// The free bytes of the disk if they are fewer than the floor; else nil.
    package func freeBytesBelowFloor() throws -> Int64? {
        let free = try store.availableBytes()
        return free < floor.usual ? free : nil
    }

    /// Runs `begin`, which begins a download that no program waits for, if there is room for the whole content, or
    /// can be made. One that does not fit would come as far as it can, be given up, and come again.
    /// - Parameter floor: Bytes that stay free on the disk.
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

    /// Downloads that a program waits for bring only what it reads: they promise nothing.
    private func promiseRoom(for size: Int64, above floor: Int64) throws -> Bool {
        let free = try store.availableBytes() - floor
        let coming = backgroundBytesComing()
        return promisedBytes.withLock { promised in
            guard promised + coming + size <= free else { return false }
            promised += size
            return true
        }
    }

    /// Gives up the least recently used contents, so that one of `size` bytes can come. If there are not enough that
    /// may go, it comes all the same: the limits are wishes, and only a full disk refuses.
    /// - Parameter wholeFloor: the bytes that stay free on the disk, for a content that is useful only as a whole. If
    ///   it has no room even after eviction, nothing is evicted. Without it, room is made for the first bytes alone: a
    ///   program may read no more than the beginning. Later bytes evict others when they come (`keepWithinLimits`,
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
        // What is larger than the cache goes again when it is closed; for it nothing else need go.
        if let limit = configuration.cacheLimit, size <= limit {
            cache = try expectedBytes(with: needed, limit) - limit
        }
        // Somewhat more than that, since looking for what may go costs more the more there is.
        let slack = (configuration.cacheLimit ?? configuration.diskFloor) / 20
        try evictLeastUsed(disk: disk, above: floor, cache: cache, slack: slack)
    }

    /// Makes room for what is about to be fetched, and for some of what follows: a request that meets a full disk has
    /// to be made anew. If nothing may go, or what may cannot, it is made all the same.
    /// - Parameter count: the bytes that this lane is about to fetch, which are in `fetchingBytes`.
    func makeRoomAhead(of count: Int64, _ download: Download) {
        // To look through everything for each few MiB would take longer than they do.
        guard timekeeper.now() >= nextRoomAhead.withLock({ $0 }) else { return }
        do {
            let short = try floor.usual + fetchingBytes.withLock { $0 } - store.availableBytes()
            let following = min(max(0, Self.missing(download) - count), SyncLimits.roomAhead)
            if try short <= 0 || evictLeastUsed(disk: short + following, above: floor.usual) { return }
        } catch {
            logger.warning("cannot make room for a download", metadata: ["reason": "\(error)"])
        }
        let next = timekeeper.now().advanced(bySeconds: SyncLimits.maintenanceInterval / .seconds(1))
        nextRoomAhead.withLock { $0 = next }
    }

    /// The bytes that may go so that others are free above the floor.
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

    /// Contents that stay when others are evicted so that this floor is free. Nothing but ignore files stays when the
    /// reserve itself is short. With the eager policy small files stay: they would come again at once.
    private func keptContents(above floor: Int64) -> KeptContents {
        guard floor > DiskFloor.reserve else { return .none }
        return KeptContents(
            size: configuration.policy == .eager ? DiskFloor.smallFile : 0,
            requestedSince: timekeeper.now().advanced(bySeconds: -DiskFloor.requestedStay))
    }

    /// The room for contents as it is now.
    func diskRoom() throws -> DiskRoom {
        try DiskRoom(
            floor: floor, free: store.availableBytes(), evictable: evictableBytes(above: floor.usual),
            evictableForReserve: evictableBytes(above: DiskFloor.reserve))
    }

    /// Why a content that is to come by itself does not fit; nil if it does.
    /// - Parameter others: Bytes that are to come before it.
    package func refusalForRoom(of row: ItemRow, after others: Int64) throws -> UbiquityError? {
        guard try row.size + others > freeRoom() else { return nil }
        let room = try diskRoom()
        guard !room.fits(row, size: row.size, after: others) else { return nil }
        return floor.refusal(of: row.size, free: room.free, floor: floor.bytes(for: row, size: row.size))
    }

    /// Whether there is anything that may go.
    func hasEvictable() throws -> Bool {
        let (isWhole, parts) = try index.read { (try $0.hasEvictable(), try $0.evictableParts()) }
        return isWhole || parts.contains { downloads.download(of: $0.key) == nil }
    }

    /// The same for a part of a content, so many bytes of which are to be written at once.
    /// - Returns: whether there is room for them.
    func makeRoomNow(for bytes: Int64) throws -> Bool {
        try makeRoom(for: bytes)
        return try store.availableBytes() >= DiskFloor.reserve + bytes
    }

    /// Bytes that will be here with another `size`. Counted anew only when they may be too many: counting looks at
    /// every item.
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

    /// Bytes of downloads under way that room is made for (`makeRoom`) and that have not come yet.
    private func bytesExpected(ofAtMost limit: Int64) -> Int64 {
        downloads.all.reduce(0) { sum, download in
            guard download.content.size <= limit else { return sum }
            let missing = Self.missing(download)
            return sum + (download.isBackground ? missing : min(missing, Int64(SyncLimits.followingFetchBytes)))
        }
    }

    /// Looks after the disk floor while programs write: maintenance comes too late for one that fills the disk in
    /// seconds. (With passthrough nobody else sees it write, and the kernel tells it that the disk is full.)
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
                logger.warning("the room on the disk is not known", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// - Returns: when to look again, and whether any program has a file open for writing.
    private func lookAtRoom(_ watch: RoomWatch) throws -> (RoomWatch, isWritten: Bool) {
        let start = timekeeper.now()
        let free = try store.availableBytes()
        // The eager policy would take for itself what is made free beyond the floor, and that would be made free again.
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

    /// Evicts what is beyond the cache limit, or below the disk floor.
    func keepWithinLimits() throws {
        var cache: Int64 = 0
        if let limit = configuration.cacheLimit {
            // For what is larger than the cache nothing else need go: it goes itself as soon as it may.
            let isAny = try index.read { try !$0.evictable(largerThan: limit, limit: 1).isEmpty }
            if isAny { try evict(largerThan: limit) }
            let here = try cachedBytes(ofAtMost: limit), expected = here + bytesExpected(ofAtMost: limit)
            bytesHere.withLock { $0 = expected }
            cache = here - limit
        }
        try evictLeastUsed(disk: floor.usual - store.availableBytes(), above: floor.usual, cache: cache)
    }

    /// What came in part only, and is not wanted any more, may take less than its size.
    private func bytesOnDisk(of row: ItemRow) throws -> Int64 {
        guard row.contentState == .partial, let content = row.content else { return row.size }
        return min(row.size, try store.status(of: content)?.allocatedBytes ?? 0)
    }

    /// Evicts contents until the given bytes of the disk and of the cache limit are free. Requested contents are
    /// evicted only for the cache limit, or if the disk would otherwise have less than its reserve.
    /// - Parameters:
    ///   - floor: The bytes that are to be free on the disk after it.
    ///   - slack: so much more goes, if there are small contents enough for it.
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

    /// - Returns: The bytes that were evicted.
    private func evictInOrder(_ bytes: Int64, slack: Int64, keeping kept: KeptContents) throws -> Int64 {
        guard bytes > 0 else { return 0 }
        var left = bytes, hasFreed = false, last: ItemRow?
        defer { if hasFreed { noteFreed() } }
        for _ in 0..<SyncLimits.pagesOfEviction {
            // Programs wait for room: what was given up is freed before there is more of it.
            if hasFreed { noteFreed() }
            hasFreed = false
            // As many as are read at a time may all be shown or open.
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

    /// Signed out, each of them would be refused.
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

    /// - Returns: the bytes of the disk that were freed; nil if it is in use, if the cloud has not confirmed it, or if
    ///   another has just evicted it.
    private func evictUnused(_ row: ItemRow) throws -> Int64? {
        // One that is still coming is given up by whoever wants it.
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
            logger.warning("cannot free the room of what was evicted", metadata: ["reason": "\(error)"])
        }
    }
}
