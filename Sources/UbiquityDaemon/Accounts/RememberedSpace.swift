import UbiquityCore
import UbiquitySync
import UbiquitySystem

/// The account's last known usage and quota, stored for the time until the cloud reports them again. So `df` shows the
/// account and not only the disk, also on a device that starts without a network.
final class RememberedSpace: Sendable {
    private struct Stored: Codable, Hashable {
        /// In bytes.
        var usedBytes, quotaBytes: Int64
    }

    /// Limits writes, because usage changes all the time during uploads.
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
            throw UbiquityError(.invalid, "the file has negative sizes", at: path)
        }
        stored.withLock { $0.content = known }
        connection.noteUsage(used: known.usedBytes, quota: known.quotaBytes)
    }

    /// - Parameter isLast: whether the mount ends: then the values are written in any case.
    func note(_ status: ConnectionStatus, isLast: Bool = false) throws {
        guard let used = status.usedBytes, let quota = status.quotaBytes else { return }
        let new = Stored(usedBytes: used, quotaBytes: quota), now = timekeeper.uptime()
        let isDue = stored.withLock { stored in
            guard stored.content != new, isLast || stored.at.map({ now - $0 >= Self.writtenEvery }) ?? true else {
                return false
            }
            // Set it also if the write fails: the next attempt waits for the next interval.
            stored.at = now
            return true
        }
        guard isDue else { return }
        try StoredJSON.write(new, at: path)
        stored.withLock { $0.content = new }
    }
}
