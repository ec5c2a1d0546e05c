internal import UbiquitySystem

/// Room on the disk that is kept for the index, in files of its own.
///
/// On a full disk the index cannot grow by the few pages that say what was deleted or evicted, and what it does not say
/// durably is not removed: without this room, a disk that is filled with one's own files would never get any again.
/// What is given while programs write may be theirs a moment later, so a part is kept for the next opening.
package final class IndexReserve: Sendable {
    /// Of each part: what a batch of changes takes, several times.
    static let size: Int64 = 4 << 20
    /// It is taken (again) when so much is free beside it.
    static let spare: Int64 = 4 << 20
    /// With less than that an index cannot even be opened.
    private static let needed: Int64 = 1 << 20

    private let folder: String
    private let forRunning: String
    private let forOpening: String

    /// - Parameter index: the database's file.
    package init(besideIndexAt index: String) {
        folder = Path.parent(of: index)
        forRunning = Path.join(folder, "index.reserve")
        forOpening = Path.join(folder, "index.reserve-2")
    }

    /// Gives room back to the file system, while the index is in use.
    /// - Returns: false if there was none.
    @discardableResult
    func give() -> Bool { remove(forRunning) }

    /// Gives all back if there is hardly any other room. To be called before the index is opened.
    package func giveIfFull() {
        guard let free = freeBytes, free < Self.needed else { return }
        _ = remove(forRunning)
        _ = remove(forOpening)
    }

    /// Takes the room as far as it is to be had and not taken. Without it all works as long as there is room.
    func take() {
        take(forOpening)
        take(forRunning)
    }

    private func take(_ path: String) {
        guard (try? FileSystem.exists(path)) == false, let free = freeBytes, free >= Self.size + Self.spare,
            let file = try? FileDescriptor.open(path, [.readWrite, .create, .exclusive])
        else { return }
        do { try file.allocate([], 0..<Self.size) } catch { _ = remove(path) }
    }

    private func remove(_ path: String) -> Bool { (try? FileSystem.unlink(path)) != nil }

    private var freeBytes: Int64? { try? FileSystem.fileSystemStatus(folder).availableBytes }
}
