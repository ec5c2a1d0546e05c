import CUbiquityShims
import Glibc
import Synchronization
import UbiquityCore

/// Files that are read and written as a whole.
package enum SmallFile {
    private static let counter = Atomic<UInt64>(0)

    /// Replaces the file at `path` by `bytes`. A reader, even after a power loss, sees the old file or the new one.
    /// When it returns, the new file is on disk.
    package static func publish(_ bytes: [UInt8], at path: String, mode: UInt32 = 0o600) throws(UbiquityError) {
        let number = counter.add(1, ordering: .relaxed).newValue
        let staged = "\(path).\(getpid()).\(number).new"
        try describing("write", at: path) { () throws(Errno) in
            do throws(Errno) {
                try stage(bytes, at: staged, mode: mode)
                FaultPoints.reach("small-file.staged")
                try FileSystem.rename(staged, to: path)
            } catch {
                // The error above is thrown; a leftover file is harmless and has a unique name.
                try? FileSystem.unlink(staged)
                throw error
            }
            try FileSystem.syncDirectory(Path.parent(of: path))
        }
    }

    private static func stage(_ bytes: [UInt8], at path: String, mode: UInt32) throws(Errno) {
        let file = try FileDescriptor.open(path, [.writeOnly, .create, .truncate], mode: mode)
        try file.write(bytes)
        try file.sync()
    }

    /// Returns the whole file; nil if it does not exist.
    ///
    /// - Throws: `.tooLarge` if it has more than `limit` bytes.
    package static func read(_ path: String, limit: Int) throws(UbiquityError) -> [UInt8]? {
        let bytes = try describing("read", at: path) { () throws(Errno) -> [UInt8]? in
            do throws(Errno) { return try readAll(FileDescriptor.open(path, .readOnly), limit: limit) } catch .ENOENT {
                return nil
            }
        }
        guard let bytes, bytes.count > limit else { return bytes }
        throw UbiquityError(.tooLarge, "cannot read: more than \(limit) bytes", at: path)
    }

    /// Reads up to one byte more than `limit`. Files in /proc report size zero, so it reads to the end.
    private static func readAll(_ file: FileDescriptor, limit: Int) throws(Errno) -> [UInt8] {
        var bytes = [UInt8]()
        while bytes.count <= limit {
            let part = try file.readSome(count: min(limit + 1 - bytes.count, 65_536))
            if part.isEmpty { break }
            bytes += part
        }
        return bytes
    }
}

/// The machine's current boot. After a power loss it differs, and unsynced data may be damaged.
package enum Boot {
    /// Returns an id of the boot and of the mount of the folder's file system. A disk that was removed, or lost its
    /// power alone, is mounted again and so has another id.
    package static func id(ofFolder path: String) throws(UbiquityError) -> String {
        let mount = try describing("examine the file system", at: path) { () throws(Errno) in
            try path.withCPath { path throws(Errno) in
                var number: UInt64 = 0
                _ = try check(CUbiquity_mountNumber(path, &number))
                return number
            }
        }
        return try "\(id()) \(mount)"
    }

    package static func id() throws(UbiquityError) -> String {
        let path = "/proc/sys/kernel/random/boot_id"
        guard let bytes = try SmallFile.read(path, limit: 64) else {
            throw UbiquityError(.notFound, "cannot find the machine's boot id", at: path)
        }
        return String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
