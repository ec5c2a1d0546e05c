/// An error with its cause, its place and its remedy in words.
///
/// All modules use this one error type. `code` determines what the caller gets (an errno, an HTTP status, an exit
/// code); the texts are for people.
package struct UbiquityError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// The cloud or the network is unreachable, or the mount was set offline.
        case offline
        /// No answer in time.
        case timedOut
        /// Content is damaged and no good source is left.
        case damaged
        /// No space on this device.
        case noSpace
        /// The account's quota is used up.
        case quotaExceeded
        /// Signed out, or the token is not valid.
        case signedOut
        case notFound
        case alreadyExists
        case notDirectory
        case isDirectory
        case directoryNotEmpty
        /// The item is open, changed or being uploaded.
        case busy
        case notPermitted
        case accessDenied
        /// The device that made the content has not uploaded it yet.
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
        /// Another process holds an exclusive resource.
        case inUse
        /// The disk or the database failed.
        case io
        /// The change feed no longer reaches back that far.
        case feedCompacted
        /// A commit names chunks the cloud does not have.
        case missingChunks
        /// The cloud has accepted a later commit of this device.
        case outdatedCommit
        /// Another device has changed the package that a commit affects.
        case packageConflict
        case tooManyRequests
        /// The limit of open files of this process, or of the machine.
        case tooManyOpenFiles
        case cancelled
    }

    package let code: Code
    /// What happened, e.g. "cannot read chunk 3a41…".
    package let message: String
    /// Where: a path, an item, an address. Empty if the message names it.
    package let place: String
    /// What can be done about it. Empty if nothing needs to be done.
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
