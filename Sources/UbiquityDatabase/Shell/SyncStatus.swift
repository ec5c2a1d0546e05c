/// The state of a synced database. The database itself always works.
///
/// - Source: this library.
public enum SyncStatus: Hashable, Sendable {
    /// Parts of the log have not arrived yet, so rows of other devices may be missing.
    case gathering
    /// Everything that the folder has is in the database.
    case current
    /// The cloud is out of reach. Changes travel later.
    case offline
    /// A newer version of the program wrote changes that this one does not know. They wait for the program's update.
    case waitingForNewerProgram
    /// Nobody is signed in, or another account is. Changes wait in the database for the account that it belongs to.
    case signedOut
}
