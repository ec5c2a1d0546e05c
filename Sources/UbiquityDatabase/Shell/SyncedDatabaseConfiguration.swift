import FoundationEssentials
import GRDB

/// Options of a synced database.
///
/// - Source: the options of `NSPersistentStore` for ubiquitous content.
public struct SyncedDatabaseConfiguration: Sendable {
    /// The folder of the log; nil for `NAME.logs` in the container. It must travel.
    public var logFolder: URL?
    /// The folder of the local database; nil for `NAME.nosync` in the container. It must not travel.
    public var localFolder: URL?
    /// The schema's number; nil for the number of migrations. A larger number is newer.
    public var schemaVersion: Int?
    /// Tables that stay on this device.
    public var localTables: Set<String> = []
    /// GRDB's options of the local database, such as functions and the number of readers.
    public var database = Configuration()
    /// Whether a write returns after it is safe from a power failure. It survives the end of the program in any case.
    public var isDurable = false

    /// Makes the default options.
    public init() {}
}
