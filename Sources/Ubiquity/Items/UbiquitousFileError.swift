import FoundationEssentials
import UbiquityCore
import UbiquitySystem

/// The reason why an operation on an item failed, with the codes of `CocoaError`.
///
/// - Source: the ubiquity and file codes of `CocoaError`, with the same numbers.
public struct UbiquitousFileError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of a failure.
    public enum Code: Int, Hashable, Sendable {
        /// The item does not exist.
        case fileNoSuchFile = 4
        /// The item is in use.
        case fileLocking = 255
        /// A read failed for a reason without a code of its own.
        case fileReadUnknown = 256
        /// The user may not read the item.
        case fileReadNoPermission = 257
        /// The name is not valid.
        case fileReadInvalidFileName = 258
        /// The content is not valid, or has changed since it was listed.
        case fileReadCorruptFile = 259
        /// A write failed for a reason without a code of its own.
        case fileWriteUnknown = 512
        /// The user may not write the item.
        case fileWriteNoPermission = 513
        /// The name is not valid for a new item.
        case fileWriteInvalidFileName = 514
        /// The name is taken.
        case fileWriteFileExists = 516
        /// The disk or the account has not enough space.
        case fileWriteOutOfSpace = 640
        /// Another program has changed the document since this one read it.
        case fileChangedByOther = 1026
        /// A newer program wrote the document, and this one may not open or change it.
        case fileFormatTooNew = 1027
        /// The operation was cancelled.
        case userCancelled = 3072
        /// Linux or this library does not support the operation.
        case featureUnsupported = 3328
        /// The device that made the content has not uploaded it yet. The download starts by itself once it has.
        case ubiquitousFileUnavailable = 4353
        /// The account's quota does not allow the upload.
        case ubiquitousFileNotUploadedDueToQuota = 4354
        /// The cloud or this machine's daemon does not answer.
        case ubiquitousFileUbiquityServerNotAvailable = 4355
        /// The cloud has a version that the file is not based on.
        case localVersionConflictingWithServer = 4607
    }

    /// The kind of the failure.
    public let code: Code
    /// The reason in words, with the remedy.
    public let reason: String

    /// Makes an error.
    ///
    /// - Parameter code: The kind of the failure.
    /// - Parameter reason: The reason in words, with the remedy.
    public init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    public var description: String { reason }

    static func newerFormat(_ url: URL, canRead: Bool) -> UbiquitousFileError {
        UbiquitousFileError(
            .fileFormatTooNew,
            "a newer program wrote the document, and this one \(canRead ? "can only read it" : "cannot read it"); "
                + "update the program: \(url.path)")
    }

    package init(_ error: UbiquityError, isWriting: Bool = true) {
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
