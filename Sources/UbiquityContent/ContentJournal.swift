package import UbiquityCore
package import UbiquitySystem

/// Small new contents that a program has synced, in the file of the index's journal: a save then waits for one sync of
/// that file, whose blocks the disk has already, instead of one for it and one for a new file, which has to get its
/// place first. The content's own file is brought to the disk later (`settle`), and not at all if the next save
/// replaces it first.
///
/// After a loss of power the contents that are not whole on the disk are written anew from here (`restore`). So a
/// record may only be written over when its content is on the disk itself, and what a program syncs past the journal
/// takes its content's record back.
///
/// Its room has two halves: while the contents of one are brought to the disk, the other one is written. A record: see
/// `ContentRecord`. Only contents of which nothing has a place on the disk yet are taken: what gets one later is as new
/// as the record or newer, and brings the times of its file along.
package final class ContentJournal: Sendable {
    /// Whether a place on the disk was chosen for what a file has.
    package struct Placement: Sendable {
        /// Whether the file system tells.
        var isKnown: @Sendable (FileDescriptor) throws(Errno) -> Bool
        /// Whether nothing of the first bytes, so many, has one.
        var isUnplaced: @Sendable (FileDescriptor, Int64) throws(Errno) -> Bool
        /// When anything of a file was changed last; no program can set that.
        var changeTime: @Sendable (FileStatus) -> Timestamp

        /// (ext4, which chooses when it writes. Of others it is not known what a loss of power leaves; and without a
        /// journal of its own it has nothing to commit for a new file, which then costs less than two writes: measured,
        /// 0.9 of the saves in the same time. With one, 1.2 to 1.7 times as many.)
        package static let asKernelSays = Placement { file throws(Errno) in
            try file.commitsNewFiles()
        } isUnplaced: { file, length throws(Errno) in
            try file.isUnplaced(length)
        } changeTime: { $0.changedAt }

        /// Of simulated disks, which are copied, and which no program sets times on.
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

    /// Bytes of a content: beyond, two writes cost more than the place of a new file.
    static let maximumContent: Int64 = 32 * 1024
    /// Bytes of each half.
    package static let halfSize: Int64 = 2 << 20
    /// Bytes at the end of each half that are for records that a content is forgotten.
    static let forgettingRoom: Int64 = 64 * Int64(ContentRecord.headerSize)
    /// Bytes that must be free for it to take its room.
    private static let neededRoom: Int64 = 256 << 20

    struct Half {
        /// Drawn when it begins anew: what stood there before is never taken for a part of it.
        var beginning: UInt64 = 0
        var end: Int64 = 0
        /// Its contents are being brought to the disk: nothing is added.
        var isLeaving = false
        var isFree: Bool { end == 0 && !isLeaving }
    }

    /// The last record of a content.
    struct Kept: Hashable {
        var half: Int
        var number: UInt64
    }

    struct State {
        /// Nil before `prepare`, and where it cannot be used.
        var file: FileDescriptor?
        /// It could not be brought to the disk once: nothing more is kept.
        var hasFailed = false
        var halves = [Half(), Half()]
        var current = 0
        /// Of the last record.
        var number: UInt64 = 0
        var kept: [ContentID: Kept] = [:]
    }

    let path: String
    /// Where in the file it begins.
    let start: Int64
    let state = Lock(State())
    /// One half is settled at a time.
    private let settling = Lock(())
    /// Locked while the file is synced: the kernel tells of a failure one of those who wait for it.
    private let syncing = Lock(())
    let halfSize: Int64
    private let random: any RandomSource
    let placement: Placement
    /// What the boot is called in records (see `Boot`).
    let boot: UInt64

    /// - Parameters:
    ///   - path: of a file that another has made; from `start` on it is for this.
    ///   - boot: what the machine's boot is called (see `Boot`).
    ///   - halfSize: bytes of each half; a simulator, which opens journals by the thousand, has small ones.
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

    /// Takes its room; without that, and on file systems that do not say what they have placed, contents are synced
    /// themselves. `restore` comes before. It blocks.
    /// - Returns: whether they are kept from now on.
    @discardableResult
    package func prepare() throws(UbiquityError) -> Bool {
        let size = halfSize * 2
        let file = try describing("make the journal of contents", at: path) { () throws(Errno) -> FileDescriptor? in
            let file = try FileDescriptor.openFile(path, .readWrite)
            guard try placement.isKnown(file) else { return nil }
            guard try file.status().size < start + size else { return file }
            guard try file.fileSystemStatus().availableBytes >= Self.neededRoom else { return nil }
            do throws(Errno) {
                // Written, so that what is written over later needs nothing but its bytes on the disk.
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

    /// Writes the content down, if it is one for the journal. It is durable when the journal's file has been synced.
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

    /// Brings what is kept to the disk. After a failure each later call fails too, and nothing more is kept: what
    /// follows a record that is not there is never found.
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

    /// The index is in the same file: what it says may come to the disk with a sync of this.
    private func withPrecursors(_ body: () throws(Errno) -> Void) throws(Errno) {
        let precursors = precursors.withLock { $0 }
        defer { precursors?.end() }
        do { try precursors?.begin() } catch { throw Errno.EIO }
        try body()
    }

    /// What must be on the disk before the file of the journal is brought there, as `ItemIndex.beforeDurable`.
    struct Precursors: Sendable {
        let begin: @Sendable () throws -> Void
        let end: @Sendable () -> Void
    }

    func setPrecursors(_ begin: @escaping @Sendable () throws -> Void, end: @escaping @Sendable () -> Void) {
        precursors.withLock { $0 = Precursors(begin: begin, end: end) }
    }
    private let precursors = Lock<Precursors?>(nil)

    /// Called when a half has to be settled, so that the other one does not come to its end first.
    package func whenHalfFull(_ body: @escaping @Sendable () -> Void) { wantsSettling.withLock { $0 = body } }
    private let wantsSettling = Lock<(@Sendable () -> Void)?>(nil)

    func position(of half: Int) -> Int64 { start + Int64(half) * halfSize }

    /// - Parameter bytes: nil if the content is to be forgotten.
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

    /// Nil if it is none for the journal. Asked once more at the end whether it has a place: it is read as new as it is
    /// then.
    private func read(_ content: FileDescriptor) throws(Errno) -> (bytes: [UInt8], status: FileStatus)? {
        let status = try content.status(), size = status.size
        guard size > 0, size <= Self.maximumContent, hasNoPlace(content, size) else { return nil }
        let bytes = try content.read(count: Int(size), at: 0)
        guard bytes.count == size, try content.status().size == size, hasNoPlace(content, size) else { return nil }
        return (bytes, status)
    }

    /// False where the file system does not tell.
    private func hasNoPlace(_ content: FileDescriptor, _ size: Int64) -> Bool {
        do throws(Errno) { return try placement.isUnplaced(content, size) } catch { return false }
    }

    /// The journal could not be brought to the disk: it is used no more. What it has kept before stays there until that
    /// is settled.
    package func noteFailure() { state.withLock { $0.hasFailed = true } }

    package func isKept(_ id: ContentID) -> Bool { state.withLock { $0.kept[id] != nil } }

    /// What is kept of the content before it is synced itself; to be handed to `forget` after.
    package func mark(of id: ContentID) -> UInt64? { state.withLock { $0.kept[id]?.number } }

    /// The content is on the disk itself, as new as the mark's record or newer: that record must not bring back what
    /// was before. It is forgotten on the disk when this returns. Throws ENOSPC while there is no room for that, which
    /// `settle` makes.
    package func forget(_ id: ContentID, _ mark: UInt64) throws(Errno) {
        guard try write(forgetting: id, mark) else { return }
        try sync()
        state.withLock { state in
            // Its half is not free before it is settled: an older record is there.
            if state.kept[id]?.number == mark { state.kept[id] = nil }
        }
    }

    /// The content is about to become empty: nobody is promised any more what it had. It counts as kept until that is
    /// on the disk: what is synced itself meanwhile must not get its old end back. Throws ENOSPC as `forget`.
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

    /// Brings all that is kept to the disk and empties the journal. It blocks.
    /// - Parameters:
    ///   - isGone: whether no item had the content any more when this was called.
    ///   - makeDurable: brings the index there, so that it knows no more of those.
    ///   - sync: brings a content and its name to the disk; nothing if it is gone.
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
        // Newer records of what this half has, too, are on the disk before it is given up; after a failure none count.
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
    /// Takes the other half if this one is full.
    /// - Returns: false if that is not free yet.
    mutating func makeRoom(for length: Int, of halfSize: Int64, _ random: any RandomSource) -> Bool {
        guard Int64(length) <= halfSize else { return false }
        if halves[current].isLeaving || halves[current].end + Int64(length) > halfSize {
            guard halves[1 - current].isFree else { return false }
            current = 1 - current
        }
        if halves[current].end == 0 { halves[current].beginning = random.next() }
        return true
    }

    /// The half that is to be settled next: the one that is not written to, or else the other one, which the first
    /// takes the place of.
    mutating func beginLeaving() -> Int? {
        let half = halves[1 - current].end > 0 ? 1 - current : current
        guard halves[half].end > 0 else { return nil }
        halves[half].isLeaving = true
        return half
    }
}
