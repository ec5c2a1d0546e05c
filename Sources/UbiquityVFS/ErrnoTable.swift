package import UbiquityCore
package import UbiquitySystem

extension UbiquityError.Code {
    /// The errno that the calling program gets.
    package var errno: Errno {
        switch self {
        case .offline: .ENETUNREACH
        case .timedOut: .ETIMEDOUT
        case .damaged, .io, .newerFormat: .EIO
        case .noSpace: .ENOSPC
        case .quotaExceeded: .EDQUOT
        case .signedOut, .stale: .ESTALE
        case .notFound: .ENOENT
        case .alreadyExists: .EEXIST
        case .notDirectory: .ENOTDIR
        case .isDirectory: .EISDIR
        case .directoryNotEmpty: .ENOTEMPTY
        case .busy, .inUse: .EBUSY
        case .notPermitted: .EPERM
        case .accessDenied: .EACCES
        // The author's device has not uploaded it yet: nothing here can hasten that, so the program should try again
        // later.
        case .notUploadedYet, .wouldBlock: .EAGAIN
        case .noSuchAttribute: .ENODATA
        case .nameTooLong: .ENAMETOOLONG
        case .invalidName: .EILSEQ
        case .invalid: .EINVAL
        case .tooLarge: .EFBIG
        case .notSupported: .EOPNOTSUPP
        case .crossesContainers: .EXDEV
        case .interrupted, .cancelled: .EINTR
        // The limit of the whole system, not of the calling program.
        case .tooManyOpenFiles: .ENFILE
        // These concern the device and the cloud; a program sees them only as a failed download.
        case .feedCompacted, .missingChunks, .outdatedCommit, .packageConflict, .tooManyRequests: .EIO
        }
    }
}

extension Errno {
    /// The errno for any error that an operation threw.
    package init(describing error: any Error) {
        switch error {
        case let error as Errno: self = error
        case let error as UbiquityError: self = error.code.errno
        case is CancellationError: self = .EINTR
        default: self = .EIO
        }
    }
}

extension ItemName {
    /// Checks a name from a program. Throws ENAMETOOLONG, EILSEQ (not UTF-8), EINVAL ("/" or a zero in it, empty).
    static func checked(_ bytes: [UInt8]) throws(Errno) -> ItemName {
        do {
            return try ItemName(bytes)
        } catch {
            switch error {
            case .tooLong: throw .ENAMETOOLONG
            case .notUTF8: throw .EILSEQ
            case .empty, .reserved: throw .EINVAL
            }
        }
    }
}
