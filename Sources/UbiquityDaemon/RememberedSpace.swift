import UbiquityCore
import UbiquitySync
import UbiquitySystem

/// What the account was last known to hold and may hold, for the time until the cloud has told it again: also of a
/// device that starts without the network, `df` shows the account and not the disk alone.
final class RememberedSpace: Sendable {
    private struct Stored: Codable, Hashable {
        /// Bytes.
        var usedBytes, quotaBytes: Int64
    }

    /// While uploads go on it changes all the time.
    private static let writtenEvery = Duration.seconds(60)

    private let path: String
    private let timekeeper: any Timekeeper
    private let stored = Lock((content: Stored?.none, at: Duration?.none))

    init(_ folder: ContainerFolder, _ timekeeper: any Timekeeper) {
        path = Path.join(folder.path, "space.json")
        self.timekeeper = timekeeper
    }

    /// Throws if the file cannot be read: the next `note` writes it anew.
    func recall(_ connection: Connection) throws {
        guard let known = try StoredJSON.read(Stored.self, at: path) else { return }
        guard known.usedBytes >= 0, known.quotaBytes >= 0 else {
            throw UbiquityError(.invalid, "no sizes", at: path)
        }
        stored.withLock { $0.content = known }
        connection.noteUsage(used: known.usedBytes, quota: known.quotaBytes)
    }

    /// - Parameter isLast: Whether the mount ends: then it is written in any case.
    func note(_ status: ConnectionStatus, isLast: Bool = false) throws {
        guard let used = status.usedBytes, let quota = status.quotaBytes else { return }
        let new = Stored(usedBytes: used, quotaBytes: quota), now = timekeeper.uptime()
        let isDue = stored.withLock { stored in
            guard stored.content != new, isLast || stored.at.map({ now - $0 >= Self.writtenEvery }) ?? true else {
                return false
            }
            // Also if it cannot be written: it is tried again when it is due again.
            stored.at = now
            return true
        }
        guard isDue else { return }
        try StoredJSON.write(new, at: path)
        stored.withLock { $0.content = new }
    }
}
