import CUbiquityShims
import Glibc

// Other writers of a file.
extension FileDescriptor {
    /// Returns whether any process has the file open for writing, or mapped through such an open. This descriptor must
    /// be open for reading only, or it counts itself.
    ///
    /// The kernel grants a read lease only while there is no writer; the lease is released at once. Throws EINVAL or
    /// EOPNOTSUPP where the file system has no leases, EACCES if the file belongs to another user.
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

    /// Returns the kind of the file system, as in `linux/magic.h`.
    package func fileSystemKind() throws(Errno) -> Int64 {
        var result: Int64 = 0
        _ = try retrying { CUbiquity_fileSystemKind(rawValue, &result) }
        return result
    }

    /// Returns whether the first `length` bytes were all written but have neither reached the disk nor been allocated
    /// there. Throws EOPNOTSUPP where the file system does not report it.
    package func isUnplaced(_ length: Int64) throws(Errno) -> Bool {
        try check(CUbiquity_isUnplaced(rawValue, UInt64(length))) == 1
    }

    /// Starts writing all dirty data to disk. The next store through a mapping to any of these pages then changes the
    /// file's times. A store to a page that is still dirty does not.
    package func startWriteback() throws(Errno) { _ = try retrying { CUbiquity_startWriteback(rawValue) } }
}
