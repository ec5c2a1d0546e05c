import UbiquityCore

extension Errno {
    /// The error code that the rest of the program uses for this failure.
    package var code: UbiquityError.Code {
        switch self {
        case .ENOSPC, .EDQUOT: .noSpace
        case .ENOENT: .notFound
        case .EEXIST: .alreadyExists
        case .ENOTDIR: .notDirectory
        case .EISDIR: .isDirectory
        case .ENOTEMPTY: .directoryNotEmpty
        case .EPERM, .EROFS: .notPermitted
        case .EACCES: .accessDenied
        case .EBUSY, .ETXTBSY: .busy
        case .ENODATA: .noSuchAttribute
        case .ENAMETOOLONG: .nameTooLong
        case .EILSEQ: .invalidName
        case .EINVAL, .ELOOP: .invalid
        case .EFBIG, .EOVERFLOW, .ERANGE: .tooLarge
        case .EOPNOTSUPP, .ENOSYS, .ENOTTY: .notSupported
        case .EXDEV: .crossesContainers
        case .EMFILE, .ENFILE: .tooManyOpenFiles
        case .ESTALE, .ENOTCONN: .stale
        case .EINTR: .interrupted
        case .EAGAIN: .wouldBlock
        case .EADDRINUSE: .inUse
        case .ENETUNREACH, .ECONNREFUSED: .offline
        case .ETIMEDOUT: .timedOut
        case .ECANCELED: .cancelled
        default: .io
        }
    }

    fileprivate var remedy: String {
        switch self {
        case .ENOSPC: "free some space on that file system"
        case .EDQUOT: "free some space: the disk quota of this user is used up"
        case .EMFILE, .ENFILE: "raise the limit of open files"
        case .EROFS: "the file system is mounted read-only"
        case .ENXIO: "not a regular file; move it away"
        default: ""
        }
    }
}

extension UbiquityError {
    /// Makes an error from a failed system call: "cannot <action>: <the system's text>".
    package init(_ errno: Errno, doing action: String, at place: String = "") {
        self.init(errno.code, "cannot \(action): \(errno)", at: place, remedy: errno.remedy)
    }
}

/// Runs system calls and describes a failure in the words of the rest of the program.
package func describing<R>(
    _ action: @autoclosure () -> String, at place: @autoclosure () -> String = "", _ body: () throws(Errno) -> R
) throws(UbiquityError) -> R {
    do {
        return try body()
    } catch {
        throw UbiquityError(error, doing: action(), at: place())
    }
}
