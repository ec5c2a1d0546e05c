import Logging
import UbiquityCloudClient
import UbiquityCore
import UbiquitySystem

/// Keeps, per account of a device, that the cloud has proven an answer by a digest: `<state>/<account>/digests.json`.
/// From then on an answer without one is refused. A new sign-in forgets it.
struct DigestMemory: Sendable {
    private struct Stored: Codable, Hashable {
        /// The cloud's address.
        var url: String
    }

    private let path: String
    private let content: Stored

    init(_ folder: AccountFolder, url: String) {
        path = Path.join(folder.path, "digests.json")
        content = Stored(url: url)
    }

    /// Whether this cloud has done it. A file that cannot be read counts as one that says so.
    func isKnown() -> Bool {
        do { return try StoredJSON.read(Stored.self, at: path) == content } catch { return true }
    }

    func remember() throws(UbiquityError) { try StoredJSON.write(content, at: path) }

    func forget() throws(UbiquityError) {
        try describing("remove a file of the account", at: path) { () throws(Errno) in
            do throws(Errno) { try FileSystem.unlink(path) } catch .ENOENT {}
        }
    }

    /// For a client of that cloud.
    /// - Parameter pool: where the file is written.
    func proof(_ pool: BlockingPool, _ logger: Logger) -> DigestProof {
        DigestProof(isKnown: isKnown()) { [self] in
            Task {
                do { try await pool.run { try remember() } } catch {
                    logger.warning(
                        "the next start does not know that the cloud sends digests", metadata: ["reason": "\(error)"])
                }
            }
        }
    }
}
