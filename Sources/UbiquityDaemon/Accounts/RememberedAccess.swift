import UbiquityControl
import UbiquityCore
import UbiquitySync
import UbiquitySystem

/// Whether the cloud was last one that this program may only read from, because the cloud is newer. The next mount is
/// read-only from its beginning. Stored in `<state>/<account>/<container>/newer-cloud.json`.
struct RememberedAccess: Sendable {
    struct Stored: Codable, Hashable {
        var reason: String
        var remedy: String?
        /// The version of this program: a newer one asks the cloud again.
        var program: String
    }

    private let path: String

    init(_ folder: ContainerFolder) { path = Path.join(folder.path, "newer-cloud.json") }

    /// The reason why the mount must be read-only; nil if it need not be.
    func refusal() throws(UbiquityError) -> UbiquityError? {
        guard let stored = try StoredJSON.read(Stored.self, at: path), stored.program == FormatFeatures.program else {
            return nil
        }
        return UbiquityError(.newerFormat, stored.reason, remedy: stored.remedy ?? "")
    }

    /// Records the state of a connection that has met the cloud.
    func note(_ connection: Connection) throws(UbiquityError) {
        guard connection.isOnline else { return }
        guard let refusal = connection.writeRefusal else {
            return try describing("forget that the cloud is newer", at: path) { () throws(Errno) in
                do throws(Errno) { try FileSystem.unlink(path) } catch .ENOENT {}
            }
        }
        let new = Stored(reason: refusal.message, remedy: refusal.remedy, program: FormatFeatures.program)
        if try StoredJSON.read(Stored.self, at: path) != new { try StoredJSON.write(new, at: path) }
    }
}
