internal import CSimulatedDisk
internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem

/// Intercepts the calls of a world's thread that change a disk, and passes them to that disk.
final class DiskWatch: Sendable {
    /// The object of a call.
    struct Target {
        var disk: SimulatedDisk
        var inode: UInt64?
        var path: String?
        var isDirectory = false
        /// Whether it is a content's backing file.
        var isContent = false
        /// A path that opens an open file again, even if the file has no name.
        var link: String?
    }

    private struct Known {
        var disk: SimulatedDisk?
        var generation: Int
        var path: String
        var isContent: Bool
    }

    private let folder: String
    private let disks: [SimulatedDisk]
    private let known = Lock<[UInt64: Known]>([:])

    /// - Parameter folder: the folder that contains the disks' folders.
    init(folder: String, disks: [SimulatedDisk]) {
        self.folder = folder + "/"
        self.disks = disks
    }

    /// Watches the calling thread while `body` runs.
    func watching<T>(_ body: () throws -> T) rethrows -> T {
        simulated_disk_watch(
            { context, event in DiskWatch.of(context)?.before(event) ?? 0 },
            { context, event in DiskWatch.of(context)?.after(event) }, Unmanaged.passUnretained(self).toOpaque())
        defer { simulated_disk_watch(nil, nil, nil) }
        return try body()
    }

    private static func of(_ context: UnsafeMutableRawPointer?) -> DiskWatch? {
        context.map { Unmanaged<DiskWatch>.fromOpaque($0).takeUnretainedValue() }
    }

    private func before(_ event: UnsafePointer<disk_event>?) -> Int32 {
        guard let event = event?.pointee, let target = target(of: event) else { return 0 }
        return target.disk.before(event, target)
    }

    private func after(_ event: UnsafePointer<disk_event>?) {
        guard let event = event?.pointee, let target = target(of: event) else { return }
        target.disk.after(event, target)
    }

    /// Nil for files outside of this world's disks, or on a disk as it was before a crash.
    private func target(of event: disk_event) -> Target? {
        guard event.fd >= 0 else {
            guard let path = event.path.map({ String(cString: $0) }), let disk = disk(of: path) else { return nil }
            return Target(disk: disk, path: path)
        }
        var status = stat()
        guard fstat(event.fd, &status) == 0 else { return nil }
        let inode = UInt64(status.st_ino), link = "/proc/self/fd/\(event.fd)"
        let file: Known
        if let found = known.withLock({ $0[inode] }) { file = found } else {
            let path = (try? FileSystem.readLink(link)).map { String(decoding: $0, as: UTF8.self) } ?? ""
            let disk = disk(of: path)
            file = Known(
                disk: disk, generation: disk?.generation ?? 0, path: path, isContent: path.contains("/content/"))
            known.withLock { $0[inode] = file }
        }
        guard let disk = file.disk, disk.generation == file.generation else { return nil }
        return Target(
            disk: disk, inode: inode, path: file.path, isDirectory: status.st_mode & S_IFMT == S_IFDIR,
            isContent: file.isContent, link: link)
    }

    private func disk(of path: String) -> SimulatedDisk? {
        guard path.hasPrefix(folder) else { return nil }
        return disks.first { path.hasPrefix($0.folder + "/") || path == $0.folder }
    }
}
