package import UbiquityCore
internal import UbiquitySystem

/// Checks and clears the folder on which a container is mounted.
package enum MountPoint {
    /// Limit for dead mounts on top of each other.
    private static let clearAttempts = 16

    /// Removes dead mounts: a mount whose daemon is gone answers ENOTCONN to every call.
    ///
    /// A process that is being killed may release its locks before the kernel ends its connection. So a mount of
    /// `source` counts as dead too: the caller knows that no process serves that state folder any more.
    /// - Returns: whether there was a dead mount.
    @discardableResult
    package static func clearDead(_ path: String, source: String? = nil) throws(UbiquityError) -> Bool {
        for attempt in 0..<clearAttempts {
            guard try isLeft(at: path, source: source) else { return attempt > 0 }
            try clear(path)
        }
        throw UbiquityError(
            .inUse, "a dead mount reappears after each unmount", at: path, remedy: "unmount it by hand: umount -l")
    }

    /// Whether the path has a mount that `clearDead` would remove.
    package static func isLeft(at path: String, source: String?) throws(UbiquityError) -> Bool {
        if isDead(path) { return true }
        return try isMount(of: source, at: path)
    }

    /// The dead mount at a path if it is the only one there. Processes that die while they replace a mount leave
    /// several mounts of one container on top of each other; these are cleared down to one. Nil if other mounts are
    /// among them.
    static func onlyOne(at path: String, source: String) throws(UbiquityError) -> MountedFileSystem? {
        for _ in 0..<clearAttempts {
            let mounts = try MountedFileSystem.all().filter { $0.mountPoint == path }
            if mounts.count <= 1 { return mounts.first }
            guard mounts.allSatisfy({ $0.type == MountedFileSystem.containerType && $0.source == source }) else {
                return nil
            }
            try clear(path)
        }
        return nil
    }

    static func clear(_ path: String) throws(UbiquityError) {
        try describing("clear the dead mount", at: path) { () throws(Errno) in
            try Unmounting.unmount(Array(path.utf8), lazy: true)
        }
    }

    /// The path without symlinks. Works on a dead mount too, because the kernel does not ask its daemon.
    package static func real(_ path: String) throws(UbiquityError) -> String {
        try describing("mount", at: path) { () throws(Errno) in
            let place = try FileDescriptor.open(path, [.pathOnly, .directory])
            return String(decoding: try FileSystem.readLink("/proc/self/fd/\(place.rawValue)"), as: UTF8.self)
        }
    }

    private static func isMount(of source: String?, at path: String) throws(UbiquityError) -> Bool {
        // Without a real path there is no mount either.
        guard let source, let real = try? FileSystem.realPath(path) else { return false }
        guard let mount = try MountedFileSystem.at(real) else { return false }
        return mount.type == MountedFileSystem.containerType && mount.source == source
    }

    /// Whether the container with this state folder is mounted anywhere.
    package static func isMounted(source: String) throws(UbiquityError) -> Bool {
        try MountedFileSystem.all().contains { $0.type == MountedFileSystem.containerType && $0.source == source }
    }

    /// Where the container with this state folder is mounted now. The mount may have been moved, alone or with a parent
    /// folder, and another mount may be at its old place.
    /// - Parameter first: its original place, which is preferred if the mount is still there.
    package static func current(source: String, first: String) throws(UbiquityError) -> String? {
        let all = try MountedFileSystem.all()
        func isOurs(_ mount: MountedFileSystem) -> Bool {
            mount.type == MountedFileSystem.containerType && mount.source == source
        }
        if let there = all.last(where: { $0.mountPoint == first }), isOurs(there) { return first }
        return all.first(where: isOurs)?.mountPoint
    }

    private static func isDead(_ path: String) -> Bool {
        do throws(Errno) {
            _ = try FileSystem.statusFollowing(path)
            return false
        } catch {
            // ECANCELED: its process is just ending.
            return error == .ENOTCONN || error == .ECANCELED
        }
    }

    /// Refuses a folder that cannot be mounted on, or whose files would be hidden. Clear dead mounts first.
    /// - Returns: the path without symlinks, as the mount table will show it.
    /// - Throws: `.notFound`, `.notDirectory`, `.inUse` (a file system is mounted there), `.directoryNotEmpty`,
    ///   `.notPermitted` (root mounts where others can exchange the folder).
    package static func check(_ path: String) throws(UbiquityError) -> String {
        let status = try describing("mount", at: path) { () throws(Errno) in try FileSystem.statusFollowing(path) }
        guard status.isDirectory else {
            throw UbiquityError(
                .notDirectory, "cannot mount: not a directory", at: path, remedy: "name an empty folder")
        }
        let real = try describing("mount", at: path) { () throws(Errno) in try FileSystem.realPath(path) }
        return try free(real).path
    }

    /// Opens an empty folder without a mount.
    /// - Parameter path: absolute, without symlinks.
    /// - Throws: as `check`.
    static func free(_ path: String) throws(UbiquityError) -> MountPlace {
        let place = try MountPlace(path)
        try place.requireTrusted()
        if let mount = try MountedFileSystem.at(path) {
            throw UbiquityError(
                .inUse, "cannot mount: \(mount.type) is mounted there already", at: path,
                remedy: "unmount it first, or name another folder")
        }
        try place.requireEmpty()
        return place
    }
}

/// A line of the mount table, read without touching the mount.
struct MountedFileSystem: Hashable, Sendable {
    var mountPoint: String
    /// Also the number of a FUSE connection in `/sys/fs/fuse/connections`.
    var deviceMinor: UInt32
    var type: String
    /// For a container: its state folder.
    var source: String

    /// The type that libfuse makes of the sessions' subtype.
    static let containerType = "fuse.ubiquity"

    /// The mount at exactly that path (the last of several); nil if there is none.
    static func at(_ path: String) throws(UbiquityError) -> MountedFileSystem? {
        try all().last { $0.mountPoint == path }
    }

    /// All mounts that this process sees, in the order of mounting.
    static func all() throws(UbiquityError) -> [MountedFileSystem] {
        // A machine with very many containers has a table of some MiB.
        let table = try SmallFile.read("/proc/self/mountinfo", limit: 64 << 20) ?? []
        return table.split(separator: UInt8(ascii: "\n")).compactMap { MountedFileSystem(line: $0) }
    }

    /// `36 35 0:42 / /mount/point options optional… - type source superoptions`: see proc(5).
    private init?(line: ArraySlice<UInt8>) {
        let fields = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard let dash = fields.firstIndex(of: [UInt8(ascii: "-")]), dash >= 6, fields.count > dash + 2 else {
            return nil
        }
        let device = String(decoding: fields[2], as: UTF8.self).split(separator: ":")
        guard device.count == 2, let minor = UInt32(device[1]) else { return nil }
        deviceMinor = minor
        mountPoint = String(decoding: Self.unescaped(fields[4]), as: UTF8.self)
        type = String(decoding: fields[dash + 1], as: UTF8.self)
        source = String(decoding: Self.unescaped(fields[dash + 2]), as: UTF8.self)
    }

    /// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
    private static func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var result = [UInt8]()
        var rest = text
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(3), as: UTF8.self)
            if byte == UInt8(ascii: "\\"), digits.utf8.count == 3, let value = UInt8(digits, radix: 8) {
                result.append(value)
                rest = rest.dropFirst(3)
            } else {
                result.append(byte)
            }
        }
        return result
    }
}
