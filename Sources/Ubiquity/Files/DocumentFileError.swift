import UbiquityCore
import UbiquitySystem

/// Why a document, a package or a version could not be read, written or decided about. The codes are Cocoa's.
public struct DocumentFileError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: Int, Hashable, Sendable {
        case fileNoSuchFile = 4
        case fileReadUnknown = 256
        case fileReadNoPermission = 257
        case fileReadInvalidFileName = 258
        case fileReadCorruptFile = 259
        case fileWriteUnknown = 512
        case fileWriteNoPermission = 513
        case fileWriteFileExists = 516
        case fileWriteOutOfSpace = 640
        /// Another program has changed the file since this one read it.
        case fileChangedByOther = 1026
        case featureUnsupported = 3328
        case userCancelled = 3072
        /// The device that made it has not uploaded it yet. It comes by itself when it has.
        case ubiquitousFileUnavailable = 4353
        case ubiquitousFileNotUploadedDueToQuota = 4354
        /// The cloud or the mount is away.
        case ubiquitousFileUbiquityServerNotAvailable = 4355
    }

    public let code: Code
    /// What happened, where, and what can be done about it; for people.
    public let reason: String

    public init(_ code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }

    public var description: String { reason }

    /// - Parameter isWriting: which of Cocoa's two families of codes it is to be told in.
    init(_ error: UbiquityError, isWriting: Bool) {
        self.init(Code(error.code, isWriting: isWriting), reason: error.description)
    }

    init(_ error: MountUnreachable) {
        self.init(.ubiquitousFileUbiquityServerNotAvailable, reason: error.description)
    }
}

extension DocumentFileError.Code {
    init(_ code: UbiquityError.Code, isWriting: Bool) {
        switch code {
        case .notFound, .stale: self = .fileNoSuchFile
        case .notPermitted, .accessDenied: self = isWriting ? .fileWriteNoPermission : .fileReadNoPermission
        case .alreadyExists: self = .fileWriteFileExists
        case .noSpace: self = .fileWriteOutOfSpace
        case .quotaExceeded: self = .ubiquitousFileNotUploadedDueToQuota
        case .notUploadedYet: self = .ubiquitousFileUnavailable
        case .offline, .signedOut, .timedOut: self = .ubiquitousFileUbiquityServerNotAvailable
        case .cancelled, .interrupted: self = .userCancelled
        case .notSupported: self = .featureUnsupported
        case .damaged: self = .fileReadCorruptFile
        case .nameTooLong, .invalidName: self = .fileReadInvalidFileName
        default: self = isWriting ? .fileWriteUnknown : .fileReadUnknown
        }
    }
}

/// Runs what calls the system or a daemon, and gives its failures the form that the library's users know.
func mappingFileErrors<Result>(isWriting: Bool, _ body: () async throws -> Result) async throws -> Result {
    do { return try await body() } catch { throw DocumentFileError.mapped(error, isWriting: isWriting) }
}

extension DocumentFileError {
    /// Errors of the library's own calls in their public form; all others, such as a program's own, as they are.
    static func mapped(_ error: any Error, isWriting: Bool) -> any Error {
        switch error {
        case let error as UbiquityError: DocumentFileError(error, isWriting: isWriting)
        case let error as MountUnreachable: DocumentFileError(error)
        case let error as Errno: DocumentFileError(UbiquityError(error, doing: "use the file"), isWriting: isWriting)
        default: error
        }
    }
}
