import CUbiquityShims
import Glibc

// Who else writes to a file.
extension FileDescriptor {
    /// Whether anybody has the file open for writing, or mapped through such an open, in whichever process. This one
    /// must be open for reading only, or it is itself one who has.
    ///
    /// The kernel gives a lease for reading only while there is no writer; it is given back at once. Throws EINVAL or
    /// EOPNOTSUPP where the file system knows no leases, EACCES if the file belongs to somebody else.
    package func hasWriters() throws(Errno) -> Bool {
        do throws(Errno) {
            _ = try retrying { CUbiquity_leaseForReading(rawValue) }
        } catch {
            if error == .EAGAIN { return true }
            throw error
        }
        _ = try retrying { CUbiquity_endLease(rawValue) }
        return false
    }

    /// The kind of its file system, as in `linux/magic.h`.
    package func fileSystemKind() throws(Errno) -> Int64 {
        var result: Int64 = 0
        _ = try retrying { CUbiquity_fileSystemKind(rawValue, &result) }
        return result
    }

    /// Whether of the first bytes, so many, all were written and nothing has come to the disk yet, nor has a place
    /// there.
    /// Throws EOPNOTSUPP where the file system does not tell.
    package func isUnplaced(_ length: Int64) throws(Errno) -> Bool {
        try check(CUbiquity_isUnplaced(rawValue, UInt64(length))) == 1
    }

    /// Begins to bring all that was written to the disk. The next store through a mapping to any of these pages then
    /// shows in the file's times, which it does not while a page has still to be written.
    package func startWriteback() throws(Errno) { _ = try retrying { CUbiquity_startWriteback(rawValue) } }
}
