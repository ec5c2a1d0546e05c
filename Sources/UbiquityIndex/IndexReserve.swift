internal import UbiquitySystem

/// Room on the disk that is kept for the index.
///
/// On a full disk the index cannot grow by the few pages that say what was deleted or evicted, and what it does not say
/// durably is not removed: without this room, a disk that is filled with one's own files would never get any again.
/// While the index is in use the room lies behind the end of its log, where nobody else can take it; for its next
/// opening, which finds no log, it is a file of its own. The database itself must not be opened here: SQLite's locks on
/// it are this process's, and closing any descriptor of it gives them all up.
///
/// What programs go on making and changing on a full disk would use the room up: while it is not whole and cannot be
/// taken again they get ENOSPC, first for what is new (`Allowance`), so that there is enough for what makes room.
package struct IndexReserve: Sendable {
    /// Behind the log: what some thousand commits take. Those that fail for want of room leave nothing there. Uploading
    /// what has filled a disk of 300 MB, and evicting it, took up to 7 MB.
    static let logRoom: Int64 = 16 << 20
    /// With less than that nothing new is made, and with less than this nothing is changed but to make room.
    static let roomForNew = logRoom * 3 / 4
    static let roomForChanges = logRoom / 2
    /// For opening: what a batch of changes takes, several times.
    static let openingRoom: Int64 = 4 << 20
    /// Room is taken when so much is free beside it.
    static let spare: Int64 = 4 << 20
    /// With less than that an index cannot be opened.
    private static let needed: Int64 = 1 << 20

    private let log: String
    private let folder: String
    private let forOpening: String

    /// - Parameter index: the database's file.
    package init(besideIndexAt index: String) {
        log = index + "-wal"
        folder = Path.parent(of: index)
        forOpening = Path.join(folder, "index.reserve")
    }

    /// Gives back what is for opening, if there is hardly any other room. To be called before the index is opened.
    package func giveIfFull() {
        guard let free = freeBytes, free < Self.needed else { return }
        removeFile()
    }

    /// Takes the room as far as it is to be had and not taken. Without it all works as long as there is room.
    func take() {
        if (try? FileSystem.exists(forOpening)) == false, hasRoom(for: Self.openingRoom),
            let file = try? FileDescriptor.open(forOpening, [.readWrite, .create, .exclusive])
        {
            do { try file.allocate([], 0..<Self.openingRoom) } catch { removeFile() }
        }
        extendLog()
    }

    /// What programs may still do, as far as it can be known.
    enum Allowance: Int, Comparable {
        case removals, changes, all

        static func < (one: Allowance, other: Allowance) -> Bool { one.rawValue < other.rawValue }
    }

    /// - Returns: with the bytes that are free on the disk.
    func allowance() -> (Allowance, free: Int64) {
        guard let free = freeBytes else { return (.all, 0) }
        guard free < Self.logRoom + Self.spare, let log = try? FileSystem.status(log) else { return (.all, free) }
        let room = free + Self.roomBehind(log)
        return (room < Self.roomForChanges ? .removals : room < Self.roomForNew ? .changes : .all, free)
    }

    /// Bytes that are the log's already and not written.
    private static func roomBehind(_ log: FileStatus) -> Int64 { max(0, log.blocks * 512 - log.size) }

    /// Room behind its end; it keeps its length. Nothing is done, and nothing written, if it has enough.
    private func extendLog() {
        guard let status = try? FileSystem.status(log), Self.roomBehind(status) < Self.roomForNew else { return }
        guard hasRoom(for: Self.logRoom), let file = try? FileDescriptor.open(log, .readWrite) else {
            // Hardly any is left: now it is time for what is for opening.
            if Self.roomBehind(status) < Self.needed { giveIfFull() }
            return
        }
        // A file system that cannot do that is none of which this is promised.
        try? file.allocate(.keepSize, status.size..<status.size + Self.logRoom)
    }

    private func hasRoom(for size: Int64) -> Bool { freeBytes.map { $0 >= size + Self.spare } ?? false }

    private func removeFile() {
        // Nobody else has it; what is not there is not missed.
        try? FileSystem.unlink(forOpening)
    }

    private var freeBytes: Int64? { try? FileSystem.fileSystemStatus(folder).availableBytes }
}
