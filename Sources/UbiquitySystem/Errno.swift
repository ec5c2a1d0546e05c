import CUbiquityShims
import Glibc
import UbiquityCore

/// The `errno` of a failed system call. Every function in this module that is one system call throws it.
public struct Errno: Error, RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: Int32
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// The calling thread's `errno`. Read it right after the call: releasing an object may change it.
    @inline(__always)
    static var last: Errno { Errno(rawValue: errno) }

    /// The system's text, e.g. "No such file or directory".
    public var description: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { text in
            guard let start = text.baseAddress else { return "error \(rawValue)" }
            _ = CUbiquity_strerror(rawValue, start, text.count)
            return String(cString: start)
        }
    }

    package static let EPERM = Errno(rawValue: Glibc.EPERM)
    package static let ENOENT = Errno(rawValue: Glibc.ENOENT)
    package static let EINTR = Errno(rawValue: Glibc.EINTR)
    package static let EIO = Errno(rawValue: Glibc.EIO)
    package static let EBADMSG = Errno(rawValue: Glibc.EBADMSG)
    package static let EUCLEAN = Errno(rawValue: Glibc.EUCLEAN)
    package static let ENXIO = Errno(rawValue: Glibc.ENXIO)
    package static let EBADF = Errno(rawValue: Glibc.EBADF)
    package static let EAGAIN = Errno(rawValue: Glibc.EAGAIN)
    package static let ENOMEM = Errno(rawValue: Glibc.ENOMEM)
    package static let EACCES = Errno(rawValue: Glibc.EACCES)
    package static let EFAULT = Errno(rawValue: Glibc.EFAULT)
    package static let EBUSY = Errno(rawValue: Glibc.EBUSY)
    package static let EEXIST = Errno(rawValue: Glibc.EEXIST)
    package static let EXDEV = Errno(rawValue: Glibc.EXDEV)
    package static let ENODEV = Errno(rawValue: Glibc.ENODEV)
    package static let ENOTDIR = Errno(rawValue: Glibc.ENOTDIR)
    package static let EISDIR = Errno(rawValue: Glibc.EISDIR)
    package static let E2BIG = Errno(rawValue: Glibc.E2BIG)
    package static let EINVAL = Errno(rawValue: Glibc.EINVAL)
    package static let ENFILE = Errno(rawValue: Glibc.ENFILE)
    package static let EMFILE = Errno(rawValue: Glibc.EMFILE)
    package static let ENOTTY = Errno(rawValue: Glibc.ENOTTY)
    package static let ETXTBSY = Errno(rawValue: Glibc.ETXTBSY)
    package static let EFBIG = Errno(rawValue: Glibc.EFBIG)
    package static let ENOSPC = Errno(rawValue: Glibc.ENOSPC)
    package static let ESPIPE = Errno(rawValue: Glibc.ESPIPE)
    package static let EROFS = Errno(rawValue: Glibc.EROFS)
    package static let EMLINK = Errno(rawValue: Glibc.EMLINK)
    package static let EPIPE = Errno(rawValue: Glibc.EPIPE)
    package static let ERANGE = Errno(rawValue: Glibc.ERANGE)
    package static let EDEADLK = Errno(rawValue: Glibc.EDEADLK)
    package static let ENAMETOOLONG = Errno(rawValue: Glibc.ENAMETOOLONG)
    package static let ENOSYS = Errno(rawValue: Glibc.ENOSYS)
    package static let ENOTEMPTY = Errno(rawValue: Glibc.ENOTEMPTY)
    package static let ELOOP = Errno(rawValue: Glibc.ELOOP)
    package static let ENODATA = Errno(rawValue: Glibc.ENODATA)
    package static let EOVERFLOW = Errno(rawValue: Glibc.EOVERFLOW)
    package static let EILSEQ = Errno(rawValue: Glibc.EILSEQ)
    package static let EOPNOTSUPP = Errno(rawValue: Glibc.EOPNOTSUPP)
    package static let EADDRINUSE = Errno(rawValue: Glibc.EADDRINUSE)
    package static let ENETUNREACH = Errno(rawValue: Glibc.ENETUNREACH)
    package static let ENOTCONN = Errno(rawValue: Glibc.ENOTCONN)
    package static let ETIMEDOUT = Errno(rawValue: Glibc.ETIMEDOUT)
    package static let ECONNREFUSED = Errno(rawValue: Glibc.ECONNREFUSED)
    package static let ESTALE = Errno(rawValue: Glibc.ESTALE)
    package static let EDQUOT = Errno(rawValue: Glibc.EDQUOT)
    package static let ECANCELED = Errno(rawValue: Glibc.ECANCELED)
}
