import CUbiquityShims
import Glibc
import UbiquityCore

/// Unmounts file systems.
package enum Unmounting {
    /// UMOUNT_NOFOLLOW and MNT_DETACH of umount2(2).
    private static let noFollow: Int32 = 8
    private static let detach: Int32 = 2

    /// Unmounts what is mounted at `mountPoint`. With `lazy` it also detaches a mount in use, which ends with its last
    /// user.
    ///
    /// Root asks the kernel; other users need fusermount3, which is privileged. Blocks; a thread that serves the mount
    /// must not call it. Throws EBUSY while the mount is in use.
    package static func unmount(_ mountPoint: [UInt8], lazy: Bool) throws(Errno) {
        if ProcessHost.userID == 0 {
            _ = try mountPoint.withCPath { path throws(Errno) in
                try check(umount2(path, noFollow | (lazy ? detach : 0)))
            }
            return
        }
        let text = String(decoding: mountPoint, as: UTF8.self)
        let status = try HelperProgram.run("fusermount3", (lazy ? ["-u", "-z"] : ["-u"]) + ["-q", "--", text])
        guard status == 0 else { throw .EBUSY }
    }
}

/// A system program, run to its end.
package enum HelperProgram {
    /// Runs the program.
    ///
    /// - Returns: The exit code, or 128 plus the signal that ended it. Throws ENOENT if the program does not exist.
    package static func run(_ program: String, _ arguments: [String]) throws(Errno) -> Int32 {
        var process: pid_t = 0
        var texts: [UnsafeMutablePointer<CChar>?] = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for text in texts { free(text) } }
        let failure = posix_spawnp(&process, program, nil, nil, &texts, environ)
        guard failure == 0 else { throw Errno(rawValue: failure) }
        var status: Int32 = 0
        _ = try retrying { waitpid(process, &status, 0) }
        return status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
    }
}
