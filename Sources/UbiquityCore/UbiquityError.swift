/// A failure with its cause, its place and its remedy in words.
///
/// The one error shape of the project. `code` decides what the program that called is told (an errno, an HTTP status,
/// an exit code); the texts are for people.
package struct UbiquityError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// The cloud or the network is away, or the mount was told to be offline.
        case offline
        /// No answer in time.
        case timedOut
        /// Content is damaged and no good source is left.
        case damaged
        /// No room on this device.
        case noSpace
        /// No room in the account.
        case quotaExceeded
        /// Signed out, or the token is not valid.
        case signedOut
        case notFound
        case alreadyExists
        case notDirectory
        case isDirectory
        case directoryNotEmpty
        /// Open, changed or on its way up.
        case busy
        case notPermitted
        case accessDenied
        /// The content's author has not uploaded it yet.
        case notUploadedYet
        case noSuchAttribute
        case nameTooLong
        case invalidName
        case invalid
        case tooLarge
        case notSupported
        case crossesContainers
        case stale
        case interrupted
        case wouldBlock
        /// Made by a newer version of this program.
        case newerFormat
        /// Another process holds what only one may hold.
        case inUse
        /// The disk or the database failed.
        case io
        /// The change feed no longer reaches back that far.
        case feedCompacted
        /// A commit names chunks the cloud does not have.
        case missingChunks
        /// The cloud has taken a later commit of this device.
        case outdatedCommit
        /// Another device has changed the package that a commit is about.
        case packageConflict
        case tooManyRequests
        /// The limit of open files of this process, or of the machine.
        case tooManyOpenFiles
        case cancelled
    }

    package let code: Code
    /// What happened, e.g. "cannot read chunk 3a41…".
    package let message: String
    /// Where: a path, an item, an address. Empty if the message says it.
    package let place: String
    /// What can be done about it. Empty if nothing need be.
    package let remedy: String

    package init(_ code: Code, _ message: String, at place: String = "", remedy: String = "") {
        self.code = code
        self.message = message
        self.place = place
        self.remedy = remedy
    }

    /// One line: "cannot open the index: made by a newer version (/home/a/…); install the newer ubiquity".
    package var description: String {
        message + (place.isEmpty ? "" : " (\(place))") + (remedy.isEmpty ? "" : "; \(remedy)")
    }
}
