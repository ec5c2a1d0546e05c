package import UbiquityCore
package import UbiquitySystem

/// A journal of small new contents that a program has synced. It shares a file with the index's journal. A save then
/// waits for one sync of that file, whose blocks are allocated, instead of one for it and one for a new file without
/// blocks. The content's own file is synced later (`settle`), or never if the next save replaces it first.
///
/// After a loss of power, `restore` rewrites the contents that are incomplete on the disk. So a record may be
/// overwritten only when its content is on the disk. A sync past the journal invalidates the content's record.
///
/// The journal has two halves: while the contents of one are synced, the other is written. For a record see
/// `ContentRecord`. The journal takes only contents without allocated blocks. Blocks allocated later are as new as the
/// record or newer, and update the file's times.
package final class ContentJournal: Sendable {
    /// Queries whether the file system has allocated blocks for a file's data.
    package struct Placement: Sendable {
        /// Whether the file system reports it.
        var isKnown: @Sendable (FileDescriptor) throws(Errno) -> Bool
        /// Whether none of the first bytes, up to the given count, has blocks.
        var isUnplaced: @Sendable (FileDescriptor, Int64) throws(Errno) -> Bool
        /// The time of the file's last change of any kind. Programs cannot set it.
        var changeTime: @Sendable (FileStatus) -> Timestamp

        /// For ext4, which allocates blocks when it writes. For other file systems it is unknown what a loss of power
        /// leaves. ext4 without a journal commits nothing for a new file, which then costs less than two writes: 0.9
        /// times as many saves in the same time (measured). With a journal there are 1.2 to 1.7 times as many.
        package static let asKernelSays = Placement { file throws(Errno) in
            try file.commitsNewFiles()
        } isUnplaced: { file, length throws(Errno) in
            try file.isUnplaced(length)
        } changeTime: { $0.changedAt }

        /// For simulated disks, which are copied, and on which no program sets times.
        package init(
            isKnown: @escaping @Sendable (FileDescriptor) throws(Errno) -> Bool = { _ in true },
            isUnplaced: @escaping @Sendable (FileDescriptor, Int64) throws(Errno) -> Bool,
            changeTime: @escaping @Sendable (FileStatus) -> Timestamp = { $0.modifiedAt }
        ) {
            self.isKnown = isKnown
            self.isUnplaced = isUnplaced
            self.changeTime = changeTime
        }
    }

    /// The largest content, in bytes. Beyond it, two writes cost more than the blocks of a new file.
    static let maximumContent: Int64 = 32 * 1024
    /// Bytes of each half.
    package static let halfSize: Int64 = 2 << 20
    /// Bytes at the end of each half that are reserved for records that invalidate a content.
    static let forgettingRoom: Int64 = 64 * Int64(ContentRecord.headerSize)
    /// Free bytes that the disk needs before the journal allocates its space.
    private static let neededRoom: Int64 = 256 << 20

    struct Half {
        /// Drawn at random when the half begins anew, so that older records are never taken for a part of it.
        var beginning: UInt64 = 0
        var end: Int64 = 0
        /// Whether its contents are being synced. Nothing is added then.
        var isLeaving = false
        var isFree: Bool { end == 0 && !isLeaving }
    }

    /// The last record of a content.
    struct Kept: Hashable {
        var half: Int
        var number: UInt64
    }

    struct State {
        /// Nil before `prepare`, or if the journal cannot be used.
        var file: FileDescriptor?
        /// Whether a sync of the journal has failed. Then nothing more is kept.
        var hasFailed = false
        var halves = [Half(), Half()]
        var current = 0
        /// The number of the last record.
        var number: UInt64 = 0
        var kept: [ContentID: Kept] = [:]
    }

    let path: String
    /// The journal's offset in the file.
    let start: Int64
    let state = Lock(State())
    /// Held while a half is settled, so that only one is at a time.
    private let settling = Lock(())
    /// Held while the file is synced: the kernel reports a failure to only one of the waiters.
    private let syncing = Lock(())
    let halfSize: Int64
    private let random: any RandomSource
    let placement: Placement
    /// The id of this boot in records (see `Boot`).
    let boot: UInt64

    /// - Parameters:
    ///   - path: a file that another component has created. The journal uses it from `start` on.
    ///   - boot: the id of this boot of the machine (see `Boot`).
    ///   - halfSize: bytes of each half. A simulator opens thousands of journals and uses small ones.
    package init(
        path: String, start: Int64, boot: [UInt8], random: any RandomSource, placement: Placement = .asKernelSays,
        halfSize: Int64 = ContentJournal.halfSize
    ) {
        self.path = path
        self.start = start
        self.placement = placement
        self.halfSize = halfSize
        self.random = random
        var sum = RecordChecksum(seed: 0)
        sum.add(boot[...])
        self.boot = sum.value
    }

    /// Allocates the journal's space. If that fails, or if the file system does not report allocated blocks, contents
    /// are synced one by one. Call `restore` first. Blocks.
    /// - Returns: whether contents are kept from now on.
    @discardableResult
    package func prepare() throws(UbiquityError) -> Bool {
        let size = halfSize * 2
        let file = try describing("create the journal of contents", at: path) { () throws(Errno) -> FileDescriptor? in
            let file = try FileDescriptor.openFile(path, .readWrite)
            guard try placement.isKnown(file) else { return nil }
            guard try file.status().size < start + size else { return file }
            guard try file.fileSystemStatus().availableBytes >= Self.neededRoom else { return nil }
            do throws(Errno) {
                // Write the zeros, so that a later record needs no further blocks.
                try file.write([UInt8](repeating: 0, count: Int(size)), at: start)
                try file.sync()
            } catch {
                try file.truncate(to: start)
                throw error
            }
            return file
        }
        return state.withLock { state in
            state.file = file
            return file != nil && !state.hasFailed
        }
    }

    // MARK: Keeping

    /// Writes the content to the journal if it qualifies. It is durable once the journal's file is synced.
    /// - Returns: false if the content must be synced itself.
    package func keep(_ id: ContentID, _ content: FileDescriptor) throws(Errno) -> Bool {
        let (file, isHalfFull) = try state.withLock { state throws(Errno) -> (FileDescriptor?, Bool) in
            guard let file = state.file, !state.hasFailed, let found = try read(content) else {
                return (nil, false)
            }
            let length = ContentRecord.headerSize + found.bytes.count
            let before = state.current
            guard state.makeRoom(for: length, of: halfSize - Self.forgettingRoom, random) else { return (nil, false) }
            try append(id, found.bytes, found.status, &state, to: file)
            return (file, state.current != before)
        }
        if isHalfFull { wantsSettling.withLock { $0?() } }
        return file != nil
    }

    /// Syncs the journal. After a failure every later call fails too, and nothing more is kept: a record after a
    /// missing one is never found.
    package func sync() throws(Errno) {
        try withPrecursors { () throws(Errno) in
            try syncing.withLock { _ throws(Errno) in
                guard let file = state.withLock({ $0.hasFailed ? nil : $0.file }) else { throw Errno.EIO }
                do throws(Errno) { try file.syncData() } catch {
                    noteFailure()
                    throw error
                }
            }
        }
    }

    /// The index uses the same file, so a sync of the journal may make index records durable too.
    private func withPrecursors(_ body: () throws(Errno) -> Void) throws(Errno) {
        let precursors = precursors.withLock { $0 }
        defer { precursors?.end() }
        do { try precursors?.begin() } catch { throw Errno.EIO }
        try body()
    }

    /// Work to do before and after a sync of the journal's file, as `ItemIndex.beforeDurable`.
    struct Precursors: Sendable {
        let begin: @Sendable () throws -> Void
        let end: @Sendable () -> Void
    }

    func setPrecursors(_ begin: @escaping @Sendable () throws -> Void, end: @escaping @Sendable () -> Void) {
        precursors.withLock { $0 = Precursors(begin: begin, end: end) }
    }
    private let precursors = Lock<Precursors?>(nil)

    /// Sets a closure that is called when a half must be settled, before the other one is full.
    package func whenHalfFull(_ body: @escaping @Sendable () -> Void) { wantsSettling.withLock { $0 = body } }
    private let wantsSettling = Lock<(@Sendable () -> Void)?>(nil)

    func position(of half: Int) -> Int64 { start + Int64(half) * halfSize }

    /// - Parameter bytes: nil for a record that invalidates the content.
    private func append(
        _ id: ContentID, _ bytes: [UInt8]?, _ status: FileStatus?, _ state: inout State, to file: FileDescriptor
    ) throws(Errno) {
        let half = state.halves[state.current]
        let record = ContentRecord(
            beginning: half.beginning, number: state.number + 1, boot: boot, content: id,
            modifiedAt: status?.modifiedAt ?? .zero, changedAt: status.map { placement.changeTime($0) } ?? .zero,
            bytes: bytes)
        let encoded = record.encoded
        try file.write(encoded, at: position(of: state.current) + half.end)
        state.number += 1
        state.halves[state.current].end += Int64(encoded.count)
        if bytes != nil { state.kept[id] = Kept(half: state.current, number: state.number) }
    }

    /// Reads a content that qualifies for the journal, else nil. Checks the allocation again after the read: the bytes
    /// are as new as that moment.
    private func read(_ content: FileDescriptor) throws(Errno) -> (bytes: [UInt8], status: FileStatus)? {
        let status = try content.status(), size = status.size
        guard size > 0, size <= Self.maximumContent, hasNoPlace(content, size) else { return nil }
        let bytes = try content.read(count: Int(size), at: 0)
        guard bytes.count == size, try content.status().size == size, hasNoPlace(content, size) else { return nil }
        return (bytes, status)
    }

    /// False if the file system does not report it.
    private func hasNoPlace(_ content: FileDescriptor, _ size: Int64) -> Bool {
        do throws(Errno) { return try placement.isUnplaced(content, size) } catch { return false }
    }

    /// Records that a sync of the journal failed. It is not used any more. Records kept before remain until they are
    /// settled.
    package func noteFailure() { state.withLock { $0.hasFailed = true } }

    package func isKept(_ id: ContentID) -> Bool { state.withLock { $0.kept[id] != nil } }

    /// The number of the content's record. Read it before the content is synced itself, and pass it to `forget`
    /// afterwards.
    package func mark(of id: ContentID) -> UInt64? { state.withLock { $0.kept[id]?.number } }

    /// Durably invalidates the record after the content was synced itself, so that it cannot restore an older state.
    /// - Throws: ENOSPC while the half has no space for that. `settle` frees it.
    package func forget(_ id: ContentID, _ mark: UInt64) throws(Errno) {
        guard try write(forgetting: id, mark) else { return }
        try sync()
        state.withLock { state in
            // The half still has an older record, so it is not free before it is settled.
            if state.kept[id]?.number == mark { state.kept[id] = nil }
        }
    }

    /// Invalidates the record of a content that is about to become empty, so that its old bytes are not restored. It
    /// counts as kept until that is durable.
    /// - Throws: ENOSPC, as `forget`.
    package func giveUp(_ id: ContentID, _ mark: UInt64) throws(Errno) { _ = try write(forgetting: id, mark) }

    private func write(forgetting id: ContentID, _ mark: UInt64) throws(Errno) -> Bool {
        try state.withLock { state throws(Errno) -> Bool in
            guard state.kept[id]?.number == mark, let file = state.file else { return false }
            guard state.makeRoom(for: ContentRecord.headerSize, of: halfSize, random) else { throw Errno.ENOSPC }
            try append(id, nil, nil, &state, to: file)
            return true
        }
    }

    // MARK: Settling

    /// Syncs all kept contents and empties the journal. Blocks.
    /// - Parameters:
    ///   - isGone: whether no item referenced the content when this was called.
    ///   - makeDurable: syncs the index, so that it no longer references these contents.
    ///   - sync: syncs a content and its name. Does nothing if the file is gone.
    package func settle(
        isGone: (ContentID) -> Bool, makeDurable: () throws -> Void, sync: (ContentID) throws -> Void
    ) throws {
        try settling.withLock { _ in
            for _ in 0..<2 {
                guard let half = state.withLock({ $0.beginLeaving() }) else { return }
                defer { state.withLock { $0.halves[half].isLeaving = false } }
                try settle(half, isGone, makeDurable, sync)
            }
        }
    }

    private func settle(
        _ half: Int, _ isGone: (ContentID) -> Bool, _ makeDurable: () throws -> Void, _ sync: (ContentID) throws -> Void
    ) throws {
        let (file, kept) = state.withLock { state in (state.file, state.kept.filter { $0.value.half == half }) }
        let gone = Set(kept.keys.filter(isGone))
        // Newer records of these contents in the other half must be durable before this half is freed. After a failure
        // none count.
        if !state.withLock({ $0.hasFailed }) {
            try describing("sync the journal of contents", at: path) { () throws(Errno) in try self.sync() }
        }
        if !gone.isEmpty { try makeDurable() }
        for id in kept.keys.sorted(by: { $0.rawValue < $1.rawValue }) where !gone.contains(id) { try sync(id) }
        FaultPoints.reach("content-journal.settled")
        if let file {
            try describing("empty the journal of contents", at: path) { () throws(Errno) in
                try file.write([UInt8](repeating: 0, count: ContentRecord.headerSize), at: position(of: half))
                try withPrecursors { () throws(Errno) in try file.syncData() }
            }
        }
        state.withLock { state in
            for (id, record) in kept where state.kept[id] == record { state.kept[id] = nil }
            state.halves[half].end = 0
        }
    }
}

extension ContentJournal.State {
    /// Switches to the other half if this one is full.
    /// - Returns: false if the other half is not free yet.
    mutating func makeRoom(for length: Int, of halfSize: Int64, _ random: any RandomSource) -> Bool {
        guard Int64(length) <= halfSize else { return false }
        if halves[current].isLeaving || halves[current].end + Int64(length) > halfSize {
            guard halves[1 - current].isFree else { return false }
            current = 1 - current
        }
        if halves[current].end == 0 { halves[current].beginning = random.next() }
        return true
    }

    /// Selects the half to settle next: the one that is not being written, if it has records, else the current one.
    mutating func beginLeaving() -> Int? {
        let half = halves[1 - current].end > 0 ? 1 - current : current
        guard halves[half].end > 0 else { return nil }
        halves[half].isLeaving = true
        return half
    }
}
