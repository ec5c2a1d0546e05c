import Glibc
import UbiquityCore

/// A file that one process at a time holds, for as long as this object lives. The kernel lets go when the process
/// dies, so no stale lock is ever left. The file stays, and holds the holder's pid for people and messages.
package final class ProcessLock: Sendable {
    private let file: FileDescriptor

    /// Attempts while nobody can be named as the holder: it may be about to write its pid, or to end, or someone may be
    /// asking `holder(of:)`, which holds the lock for some microseconds. On a busy machine each may lose its turn in
    /// that moment.
    private static let maximumAttempts = 2000
    /// Milliseconds between them.
    private static let pause: Int32 = 1

    /// - Throws: `.inUse` naming the process that holds it.
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
            // On a full disk nobody is told who holds it.
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
        // An old pid in the file would only mislead a reader. The lock goes with the last copy of the descriptor: not
        // at once if a child has one, as each has until its program starts.
        try? file.truncate(to: 0)
        try? file.unlock()
    }

    /// The process that holds a lock.
    package struct Holder: Hashable, Sendable {
        package var process: Int32
        /// Whether it releases the lock soon: it has called `markEnding`, or it is being killed.
        package var isEnding: Bool
    }

    /// Records in the file that this process releases the lock soon. Other processes may wait for that.
    package func markEnding() {
        // Without the mark, for example on a full disk, others only wait less long.
        try? file.write(Array("\(getpid())\(Self.endingMark)\n".utf8), at: 0)
    }

    private static let endingMark = " ending"

    /// Blocks the thread, for callers that look at a lock again and again.
    package static func pause(milliseconds: Int32) { _ = poll(nil, 0, milliseconds) }

    /// The process that holds the lock at `path`; nil if none does.
    package static func holder(of path: String) throws(UbiquityError) -> Int32? { try state(of: path)?.process }

    /// The same, and whether that process is ending.
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

    /// Whether what stands at `path` is the file that this object holds: its folder may have been removed or moved, or
    /// another one have been put in its place.
    /// - Throws: what keeps it from being told, as long as that lasts.
    package func stands(at path: String) throws(UbiquityError) -> Bool {
        try describing("look for the lock", at: path) { () throws(Errno) in
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
        // A pid that cannot be read only makes the message vaguer.
        guard let bytes = try? file.read(count: 32, at: 0) else { return nil }
        let line = String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        guard let process = Int32(line.prefix { $0 != " " }) else { return nil }
        let isEnding = line.hasSuffix(endingMark) || ProcessStatus(process).map { $0.isZombie || $0.isDying } == true
        return Holder(process: process, isEnding: isEnding)
    }
}
