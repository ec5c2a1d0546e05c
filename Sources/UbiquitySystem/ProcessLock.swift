import Glibc
import UbiquityCore

/// A file that one process at a time holds, for as long as this object lives. The kernel lets go when the process
/// dies, so no stale lock is ever left. The file stays, and holds the holder's pid for people and messages.
package final class ProcessLock: Sendable {
    private let file: FileDescriptor

    /// - Throws: `.inUse` naming the process that holds it.
    package init(_ path: String) throws(UbiquityError) {
        let (file, isOurs) = try describing("lock", at: path) { () throws(Errno) in
            let file = try FileDescriptor.open(path, [.readWrite, .create])
            return (file, try file.tryLock(.exclusive))
        }
        guard isOurs else {
            let holder = Self.pid(in: file).map { "process \($0)" } ?? "another process"
            throw UbiquityError(.inUse, "in use by \(holder)", at: path, remedy: "end that process first")
        }
        try describing("lock", at: path) { () throws(Errno) in
            try file.truncate(to: 0)
            try file.write(Array("\(getpid())\n".utf8), at: 0)
        }
        self.file = file
    }

    deinit {
        // The lock goes with the descriptor; an old pid in the file would only mislead a reader.
        try? file.truncate(to: 0)
    }

    /// The process that holds the lock at `path`; nil if none does.
    package static func holder(of path: String) throws(UbiquityError) -> Int32? {
        try describing("read the lock", at: path) { () throws(Errno) in
            do throws(Errno) {
                let file = try FileDescriptor.open(path, .readOnly)
                return try file.tryLock(.shared) ? nil : pid(in: file)
            } catch .ENOENT {
                return nil
            }
        }
    }

    private static func pid(in file: FileDescriptor) -> Int32? {
        // A pid that cannot be read only makes the message vaguer.
        guard let bytes = try? file.read(count: 16, at: 0) else { return nil }
        return Int32(String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
    }
}
