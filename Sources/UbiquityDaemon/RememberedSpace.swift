import UbiquitySync
import UbiquitySystem

/// What the account was last known to hold and may hold, for the time until the cloud has told it again: also of a
/// device that starts without the network, `df` shows the account and not the disk alone.
final class RememberedSpace: Sendable {
    private struct Stored: Codable, Hashable {
        /// Bytes.
        var usedBytes, quotaBytes: Int64
    }

    private let path: String
    private let stored = Lock<Stored?>(nil)

    init(_ folder: ContainerFolder) { path = Path.join(folder.path, "space.json") }

    /// Throws if the file cannot be read: the next `note` writes it anew.
    func recall(_ connection: Connection) throws {
        guard let known = try StoredJSON.read(Stored.self, at: path) else { return }
        stored.withLock { $0 = known }
        connection.noteUsage(used: known.usedBytes, quota: known.quotaBytes)
    }

    func note(_ status: ConnectionStatus) throws {
        guard let used = status.usedBytes, let quota = status.quotaBytes else { return }
        let new = Stored(usedBytes: used, quotaBytes: quota)
        guard stored.withLock({ $0 }) != new else { return }
        try StoredJSON.write(new, at: path)
        stored.withLock { $0 = new }
    }
}
