import UbiquityCore
import UbiquitySystem

/// The reason why an operation on an item failed, with the codes of `CocoaError`.
public struct UbiquitousFileError: Error, Hashable, Sendable, CustomStringConvertible {
    public enum Code: Int, Hashable, Sendable {
        case fileNoSuchFile = 4
        /// The item is in use.
        case fileLocking = 255
        case fileReadUnknown = 256
        case fileReadNoPermission = 257
        case fileReadInvalidFileName = 258
        case fileReadCorruptFile = 259
        case fileWriteUnknown = 512
        case fileWriteNoPermission = 513
        case fileWriteInvalidFileName = 514
        case fileWriteFileExists = 516
        case fileWriteOutOfSpace = 640
        /// Another program has changed the document since this one read it.
        case fileChangedByOther = 1026
        case userCancelled = 3072
        case featureUnsupported = 3328
        /// The device that made the content has not uploaded it yet. The download starts by itself once it has.
        case ubiquitousFileUnavailable = 4353
        /// The account's quota does not allow the upload.
        case ubiquitousFileNotUploadedDueToQuota = 4354
        /// The cloud or this machine's daemon does not answer.
        case ubiquitousFileUbiquityServerNotAvailable = 4355
    }

    public let code: Code
    /// The reason in words, with the remedy.
    public let reason: String

    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    public var description: String { reason }

    init(_ error: UbiquityError, isWriting: Bool = true) {
        self.init(Self.code(of: error.code, isWriting: isWriting), error.description)
    }

    /// Converts any failure of the library's own calls to the error for its callers.
    static func from(_ error: any Error, isWriting: Bool = true) -> any Error {
        switch error {
        case let error as UbiquityError: UbiquitousFileError(error, isWriting: isWriting)
        case let error as MountUnreachable:
            UbiquitousFileError(.ubiquitousFileUbiquityServerNotAvailable, error.description)
        case let error as FileCoordinationError: from(error)
        default: error
        }
    }

    private static func from(_ error: FileCoordinationError) -> UbiquitousFileError {
        let code: Code
        switch error {
        case .userCancelled: code = .userCancelled
        case .timedOut, .busy: code = .fileLocking
        case .noSuchFile: code = .fileNoSuchFile
        case .unavailable: code = .ubiquitousFileUbiquityServerNotAvailable
        case .failed: code = .fileWriteUnknown
        }
        return UbiquitousFileError(code, error.description)
    }

    /// Makes an error from a `UbiquityError.Code`'s name and its reason; nil for an empty reason.
    static func reported(code: String?, reason: String?) -> UbiquitousFileError? {
        guard let reason, !reason.isEmpty else { return nil }
        // A newer daemon may send a code that this program does not know.
        let known = code.flatMap(UbiquityError.Code.init) ?? .io
        return UbiquitousFileError(self.code(of: known, isWriting: false), reason)
    }

    private static func code(of code: UbiquityError.Code, isWriting: Bool) -> Code {
        switch code {
        case .notUploadedYet: .ubiquitousFileUnavailable
        case .quotaExceeded: .ubiquitousFileNotUploadedDueToQuota
        case .offline, .timedOut, .signedOut, .stale: .ubiquitousFileUbiquityServerNotAvailable
        case .notFound: .fileNoSuchFile
        case .alreadyExists, .directoryNotEmpty: .fileWriteFileExists
        case .busy, .inUse, .wouldBlock: .fileLocking
        case .noSpace: .fileWriteOutOfSpace
        case .damaged: .fileReadCorruptFile
        // `noSuchAttribute` is the answer for an item that was never uploaded.
        case .notPermitted, .accessDenied, .noSuchAttribute: isWriting ? .fileWriteNoPermission : .fileReadNoPermission
        case .invalidName, .nameTooLong: isWriting ? .fileWriteInvalidFileName : .fileReadInvalidFileName
        case .notSupported: .featureUnsupported
        case .cancelled, .interrupted: .userCancelled
        default: isWriting ? .fileWriteUnknown : .fileReadUnknown
        }
    }
}
