internal import Logging
internal import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySystem

/// Keeps contents within the cache limit and above the disk floor, and says what may be downloaded.
///
/// It holds the counts of bytes that are here, promised and being fetched. The downloader asks it for space before each
/// download and each fetch. The engine runs `watch`, and maintenance calls `keepWithinLimits`. It knows the table of
/// downloads and the evictor.
package final class CacheSpace: SyncRoom {
    private struct Counts {
        /// Bytes of local contents and of downloads that may have begun, as of the last count.
        var here: Int64?
        /// Bytes that the lanes of all downloads are fetching.
        var fetching: Int64 = 0
        /// Bytes promised to downloads that are about to begin.
        var promised: Int64 = 0
        /// The earliest time to free space for fetches again. Delays the next try after one that freed nothing.
        var nextAhead = Timestamp.zero
    }

    package let context: SyncContext
    private let downloads: DownloadTable
    private let evictor: Evictor
    private let counts = Lock(Counts())

    init(_ context: SyncContext, _ downloads: DownloadTable, _ evictor: Evictor) {
        self.context = context
        self.downloads = downloads
        self.evictor = evictor
    }

    /// Bytes that the eager policy may still download. Downloads in progress count as local. It fetches nothing that
    /// the cache limit or the disk floor would evict again. 0 with the lazy policy.
    func eagerSpace() throws -> Int64 {
        configuration.policy == .eager ? try freeSpace() : 0
    }

    /// Bytes that can be downloaded without an eviction. Small files may go below the disk floor.
    func freeSpace() throws -> Int64 {
        let promised = counts.withLock { $0.promised }
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
    func withSpace<Result: Sendable>(
        for size: Int64, above floor: Int64, _ begin: () async throws -> Result
    ) async throws -> Result {
        try await pool.run { [self] in
            guard try !promise(for: size, above: floor) else { return }
            try makeSpace(for: size, wholeAbove: floor)
            guard try !promise(for: size, above: floor) else { return }
            throw try self.floor.refusal(of: size, free: store.availableBytes(), floor: floor)
        }
        defer { counts.withLock { $0.promised -= size } }
        return try await begin()
    }

    /// Promises space to a background download. A download that a program waits for fetches only what is read and gets
    /// no promise.
    private func promise(for size: Int64, above floor: Int64) throws -> Bool {
        let free = try store.availableBytes() - floor
        let coming = backgroundBytesComing()
        return counts.withLock { counts in
            guard counts.promised + coming + size <= free else { return false }
            counts.promised += size
            return true
        }
    }

    /// Evicts the least recently used contents to free space for one of `size` bytes. If too little can be evicted, the
    /// download proceeds all the same: the limits are soft, and only a full disk refuses.
    /// - Parameter wholeFloor: bytes to keep free on the disk, for a content that is useful only as a whole. If it does
    ///   not fit even after eviction, nothing is evicted. Without it, space is freed for the first bytes alone, because
    ///   a program may read only the beginning. Later bytes evict others when they arrive (`keepWithinLimits`,
    ///   `makeSpaceNow`).
    func makeSpace(for size: Int64, wholeAbove wholeFloor: Int64? = nil) throws {
        guard size > 0 else { return }
        let needed = wholeFloor == nil ? min(size, Int64(SyncLimits.followingFetchBytes)) : size
        let floor = wholeFloor ?? floor.usual
        var disk = try floor + backgroundBytesComing() + needed - store.availableBytes(), cache: Int64 = 0
        if wholeFloor != nil {
            disk += counts.withLock { $0.promised }
            guard try disk <= 0 || disk <= evictor.evictableBytes(above: floor) else { return }
        }
        // A file larger than the cache is evicted itself when it closes, so it evicts no others.
        if let limit = configuration.cacheLimit, size <= limit {
            cache = try expectedBytes(with: needed, limit) - limit
        }
        // Evict somewhat more: the search for candidates costs more the more contents there are.
        let slack = (configuration.cacheLimit ?? configuration.diskFloor) / 20
        try evictor.evictLeastUsed(disk: disk, above: floor, cache: cache, slack: slack)
    }

    /// Counts bytes that a lane is about to fetch. The lane must call `endFetch` with the same number.
    func beginFetch(of bytes: Int64) { counts.withLock { $0.fetching += bytes } }

    func endFetch(of bytes: Int64) { counts.withLock { $0.fetching -= bytes } }

    /// Frees space for the next fetch and for some that follow it, since a request that meets a full disk must be
    /// repeated. The request is sent even if nothing can be evicted.
    /// - Parameter count: bytes that this lane is about to fetch. They are included in `counts.fetching`.
    func makeSpaceAhead(of count: Int64, _ download: Download) {
        // A search through everything for each few MiB would take longer than their download.
        guard timekeeper.now() >= counts.withLock({ $0.nextAhead }) else { return }
        do {
            let short = try floor.usual + counts.withLock { $0.fetching } - store.availableBytes()
            let following = min(max(0, Self.missing(download) - count), SyncLimits.spaceAhead)
            if try short <= 0 || evictor.evictLeastUsed(disk: short + following, above: floor.usual) { return }
        } catch {
            logger.warning("cannot free space for a download", metadata: ["reason": "\(error)"])
        }
        let next = timekeeper.now().advanced(bySeconds: SyncLimits.maintenanceInterval / .seconds(1))
        counts.withLock { $0.nextAhead = next }
    }

    /// The current space for contents.
    func diskSpace() throws -> DiskSpace {
        try DiskSpace(
            floor: floor, free: store.availableBytes(), evictable: evictor.evictableBytes(above: floor.usual),
            evictableForReserve: evictor.evictableBytes(above: DiskFloor.reserve))
    }

    /// The reason why a content does not fit for a background download, or nil if it fits.
    /// - Parameter others: bytes to be downloaded before it.
    package func refusal(of row: ItemRow, after others: Int64) throws -> UbiquityError? {
        guard try row.size + others > freeSpace() else { return nil }
        let space = try diskSpace()
        guard !space.fits(row, size: row.size, after: others) else { return nil }
        return floor.refusal(of: row.size, free: space.free, floor: floor.bytes(for: row, size: row.size))
    }

    /// Whether any content can be evicted.
    func hasEvictable() throws -> Bool { try evictor.hasEvictable() }

    /// Frees space for a part of a content that is to be written at once, in bytes.
    /// - Returns: whether the part fits.
    func makeSpaceNow(for bytes: Int64) throws -> Bool {
        try makeSpace(for: bytes)
        return try store.availableBytes() >= DiskFloor.reserve + bytes
    }

    /// Local bytes after a download of `size` bytes. Counts anew only near the limit, since a count reads every item.
    private func expectedBytes(with size: Int64, _ limit: Int64) throws -> Int64 {
        let expected = counts.withLock { counts -> Int64? in
            guard let here = counts.here, here + size <= limit else { return nil }
            counts.here = here + size
            return here + size
        }
        if let expected { return expected }
        let here = try cachedBytes(ofAtMost: limit) + bytesExpected(ofAtMost: limit)
        counts.withLock { $0.here = here + size }
        return here + size
    }

    /// Bytes that downloads in progress will still fetch into the space that `makeSpace` freed.
    private func bytesExpected(ofAtMost limit: Int64) -> Int64 {
        downloads.all.reduce(0) { sum, download in
            guard download.content.size <= limit else { return sum }
            let missing = Self.missing(download)
            return sum + (download.isBackground ? missing : min(missing, Int64(SyncLimits.followingFetchBytes)))
        }
    }

    /// Keeps the disk floor while programs write. Maintenance is too slow for a program that fills the disk in seconds.
    /// With passthrough only the kernel sees the writes, and it answers that the disk is full.
    func watch() async {
        guard configuration.diskFloor > 0 else { return }
        var watch = SpaceWatch(), isWritten = false
        while !Task.isCancelled {
            do {
                if !isWritten {
                    await agenda.wait(for: .space)
                    watch = SpaceWatch()
                }
                try await timekeeper.sleep(for: watch.pause)
                (watch, isWritten) = try await pool.run { [watch] in try self.check(watch) }
            } catch {
                guard !Task.isCancelled else { return }
                isWritten = false
                logger.warning("cannot measure the free space on the disk", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// - Returns: the next state of the watch, and whether any program has a file open for writing.
    private func check(_ watch: SpaceWatch) throws -> (SpaceWatch, isWritten: Bool) {
        let start = timekeeper.now()
        let free = try store.availableBytes()
        // The eager policy would fill any space beyond the floor at once, and it would have to be freed again.
        let isLazy = configuration.policy == .lazy
        let floor = floor.usual
        let ahead = isLazy ? watch.ahead(of: free, floor: floor) : 0
        let excess = floor + ahead - free
        try evictor.evictLeastUsed(disk: excess, above: floor)
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
            if isAny { try evictor.evict(largerThan: limit) }
            let here = try cachedBytes(ofAtMost: limit), expected = here + bytesExpected(ofAtMost: limit)
            counts.withLock { $0.here = expected }
            cache = here - limit
        }
        try evictor.evictLeastUsed(disk: floor.usual - store.availableBytes(), above: floor.usual, cache: cache)
    }
}
