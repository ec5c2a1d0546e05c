internal import UbiquitySystem

/// Disk space reserved for the index.
///
/// On a full disk the index needs a few more pages to record a deletion or an eviction. Files are removed only after
/// that record is durable. Without the reserve, a disk filled with the user's own files could never be freed. While the
/// index is in use, the reserve lies behind the end of its log, where nothing else can take it. For the next opening,
/// which finds no log, it is a separate file. This type must not open the database itself: closing any descriptor of it
/// releases all of this process's SQLite locks.
///
/// Programs that continue to write on a full disk would use up the reserve. While it is incomplete and cannot be
/// refilled, they get ENOSPC, first for new items (`Allowance`), so that enough remains for operations that free space.
package struct IndexReserve: Sendable {
    /// Bytes behind the log: enough for some thousand commits. Commits that fail for lack of space use none of it.
    /// Uploading and evicting the contents of a full 300 MB disk took up to 7 MB.
    static let logRoom: Int64 = 16 << 20
    /// Below the first limit nothing new is created; below the second nothing is changed except to free space.
    static let roomForNew = logRoom * 3 / 4
    static let roomForChanges = logRoom / 2
    /// Bytes for opening the index: several times the size of a batch of changes.
    static let openingRoom: Int64 = 4 << 20
    /// The reserve is taken only if this much is free besides it.
    static let spare: Int64 = 4 << 20
    /// Bytes without which an index cannot be opened.
    private static let needed: Int64 = 1 << 20

    private let log: String
    private let folder: String
    private let forOpening: String

    /// - Parameter index: The database's file.
    package init(besideIndexAt index: String) {
        log = index + "-wal"
        folder = Path.parent(of: index)
        forOpening = Path.join(folder, "index.reserve")
    }

    /// Releases the file reserved for opening if hardly any other space is left. Call it before the index is opened.
    package func giveIfFull() {
        guard let free = freeBytes, free < Self.needed else { return }
        removeFile()
    }

    /// Reserves missing space as far as it is available. Without the reserve everything works while the disk has space.
    func take() {
        if (try? FileSystem.exists(forOpening)) == false, hasRoom(for: Self.openingRoom),
            let file = try? FileDescriptor.open(forOpening, [.readWrite, .create, .exclusive])
        {
            do { try file.allocate([], 0..<Self.openingRoom) } catch { removeFile() }
        }
        extendLog()
    }

    /// What programs may still do, as far as it can be determined.
    enum Allowance: Int, Comparable {
        case removals, changes, all

        static func < (one: Allowance, other: Allowance) -> Bool { one.rawValue < other.rawValue }
    }

    /// - Returns: The allowance, and the free bytes of the disk.
    func allowance() -> (Allowance, free: Int64) {
        guard let free = freeBytes else { return (.all, 0) }
        guard free < Self.logRoom + Self.spare, let log = try? FileSystem.status(log) else { return (.all, free) }
        let room = free + Self.roomBehind(log)
        return (room < Self.roomForChanges ? .removals : room < Self.roomForNew ? .changes : .all, free)
    }

    /// Bytes allocated to the log but not written.
    private static func roomBehind(_ log: FileStatus) -> Int64 { max(0, log.blocks * 512 - log.size) }

    /// Allocates space behind the log's end without changing its length. Does nothing if there is enough.
    private func extendLog() {
        guard let status = try? FileSystem.status(log), Self.roomBehind(status) < Self.roomForNew else { return }
        guard hasRoom(for: Self.logRoom), let file = try? FileDescriptor.open(log, .readWrite) else {
            // Hardly any space is left, so the space for opening is released now.
            if Self.roomBehind(status) < Self.needed { giveIfFull() }
            return
        }
        // A file system that does not support this has no reserve.
        try? file.allocate(.keepSize, status.size..<status.size + Self.logRoom)
    }

    private func hasRoom(for size: Int64) -> Bool { freeBytes.map { $0 >= size + Self.spare } ?? false }

    private func removeFile() {
        // No other process uses the file, and a missing file is fine.
        try? FileSystem.unlink(forOpening)
    }

    private var freeBytes: Int64? { try? FileSystem.fileSystemStatus(folder).availableBytes }
}
