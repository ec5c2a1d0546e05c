import Glibc
import UbiquityCore

/// A file that one process at a time holds, as long as this object lives. The kernel releases the lock when the process
/// dies, so no stale lock remains. The file stays and contains the holder's pid, for people and messages.
package final class ProcessLock: Sendable {
    private let file: FileDescriptor

    /// Attempts while no holder can be named. The holder may be about to write its pid, or to end; or another process
    /// calls `holder(of:)`, which holds the lock for some microseconds. On a busy machine each may lose the CPU in that
    /// moment.
    private static let maximumAttempts = 2000
    /// Milliseconds between attempts.
    private static let pause: Int32 = 1

    /// - Throws: `.inUse`, naming the process that holds the lock.
    package init(_ path: String) throws(UbiquityError) {
        let file = try describing("lock", at: path) { () throws(Errno) in
            try FileDescriptor.openFile(path, [.readWrite, .create])
        }
        guard try describing("lock", at: path, { () throws(Errno) in try Self.acquire(file) }) else {
            let holder = Self.pid(in: file).map { "process \($0)" } ?? "another process"
            throw UbiquityError(.inUse, "in use by \(holder)", at: path, remedy: "end that process first")
        }
        try describing("lock", at: path) { () throws(Errno) in
            try file.truncate(to: 0)
            // On a full disk the holder's pid is not recorded.
            do throws(Errno) { try file.write(Array("\(getpid())\n".utf8), at: 0) } catch .ENOSPC {}
        }
        self.file = file
    }

    private static func acquire(_ file: FileDescriptor) throws(Errno) -> Bool {
        for _ in 0..<maximumAttempts {
            if try file.tryLock(.exclusive) { return true }
            if let pid = pid(in: file), kill(pid, 0) == 0 || Errno.last == .EPERM { return false }
            _ = poll(nil, 0, pause)
        }
        return false
    }

    deinit {
        // An old pid in the file would mislead a reader. The lock is released with the last copy of the descriptor; a
        // child has a copy until its program starts.
        try? file.truncate(to: 0)
        try? file.unlock()
    }

    /// The process that holds a lock.
    package struct Holder: Hashable, Sendable {
        package var process: Int32
        /// Whether the process will soon release the lock: it has called `markEnding`, or is being killed.
        package var isEnding: Bool
    }

    /// Records in the file that this process releases the lock soon. Other processes may wait for that.
    package func markEnding() {
        // Without the mark, for example on a full disk, others only wait less long.
        try? file.write(Array("\(getpid())\(Self.endingMark)\n".utf8), at: 0)
    }

    private static let endingMark = " ending"

    /// Blocks the thread, for callers that poll a lock.
    package static func pause(milliseconds: Int32) { _ = poll(nil, 0, milliseconds) }

    /// Returns the process that holds the lock at `path`; nil if there is none.
    package static func holder(of path: String) throws(UbiquityError) -> Int32? { try state(of: path)?.process }

    /// Returns the same, and whether that process is ending.
    package static func state(of path: String) throws(UbiquityError) -> Holder? {
        try describing("read the lock", at: path) { () throws(Errno) in
            do throws(Errno) {
                let file = try FileDescriptor.openFile(path, .readOnly)
                guard try file.tryLock(.shared) else { return holder(in: file) }
                try file.unlock()
                return nil
            } catch .ENOENT {
                return nil
            }
        }
    }

    /// Returns whether the file at `path` is still the one this object holds. Its folder may have been removed or
    /// moved, or the file replaced.
    ///
    /// - Throws: The error that prevents the check.
    package func stands(at path: String) throws(UbiquityError) -> Bool {
        try describing("find the lock", at: path) { () throws(Errno) in
            do throws(Errno) {
                let own = try file.status(), there = try FileSystem.status(path)
                return own.inode == there.inode && own.device == there.device
            } catch .ENOENT {
                return false
            } catch .ENOTDIR {
                return false
            }
        }
    }

    private static func pid(in file: FileDescriptor) -> Int32? { holder(in: file)?.process }

    private static func holder(in file: FileDescriptor) -> Holder? {
        // An unreadable pid only makes the message less precise.
        guard let bytes = try? file.read(count: 32, at: 0) else { return nil }
        let line = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        guard let process = Int32(line.prefix { $0 != " " }) else { return nil }
        let isEnding = line.hasSuffix(endingMark) || ProcessStatus(process).map { $0.isZombie || $0.isDying } == true
        return Holder(process: process, isEnding: isEnding)
    }
}
