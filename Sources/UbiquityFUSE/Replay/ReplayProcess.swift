internal import CUbiquityShims
internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// The process that makes the system calls of replays. It receives one call at a time over its socket, until that
/// closes.
///
/// It is a process and not a thread of the daemon. A thread that waits for its own process's answer cannot be killed,
/// and while it lives the connection to the kernel stays open. A daemon killed at the wrong moment would leave a mount
/// that hangs forever. This process has no file of the daemon open and ends with it.
package enum ReplayProcess {
    /// The first argument that makes the program run as the replay process.
    package static let argument = "replay-changes"
    /// The descriptor of its socket.
    static let socket = DetachedProcess.reportDescriptor

    /// The mount whose changes are replayed.
    struct Mount: Sendable, Hashable {
        var path: String
        /// The minor number of its device; the major one is 0.
        var device: UInt32
        /// Unique among all mounts since the boot; 0 before Linux 6.8.
        var number: UInt64

        var arguments: [String] { [path, "\(device)", "\(number)"] }

        init?(arguments: [String]) {
            guard arguments.count == 3, let device = UInt32(arguments[1]), let number = UInt64(arguments[2]) else {
                return nil
            }
            self.init(path: arguments[0], device: device, number: number)
        }

        init(path: String, device: UInt32, number: UInt64) {
            self.path = path
            self.device = device
            self.number = number
        }
    }

    /// Runs until the daemon has ended.
    /// - Parameter arguments: those after `argument`.
    /// - Returns: the exit status.
    package static func run(_ arguments: [String]) -> Int32 {
        guard let mount = Mount(arguments: arguments), CUbiquity_signalOnParentDeath(SIGKILL) == 0 else { return 64 }
        var message = [UInt8](repeating: 0, count: ReplayCall.maximumLength)
        while true {
            let count = recv(socket, &message, message.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return 0 }
            var answer: Int32 = EINVAL
            if let call = ReplayCall(encoded: Array(message.prefix(count))) {
                do throws(Errno) {
                    try perform(call, mount)
                    answer = 0
                } catch { answer = error.rawValue }
            }
            guard send(socket, &answer, MemoryLayout<Int32>.size, Int32(MSG_NOSIGNAL)) > 0 else { return 0 }
        }
    }

    // MARK: The calls

    private static func perform(_ call: ReplayCall, _ mount: Mount) throws(Errno) {
        let folder = try open(call.place, mount)
        try call.place.name.withCPath { name throws(Errno) in
            switch call.kind {
            case .makeFile:
                // Open for writing: a program that waits for IN_CLOSE_WRITE then notices new files too.
                _ = FileDescriptor(
                    owning: try checked(
                        CUbiquity_openat(folder.rawValue, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0o600)))
            case .makeDirectory: _ = try checked(mkdirat(folder.rawValue, name, 0o700))
            case .makeSymlink:
                _ = try call.text.withCPath { text throws(Errno) in
                    try checked(symlinkat(text, folder.rawValue, name))
                }
            case .removeFile: _ = try checked(unlinkat(folder.rawValue, name, 0))
            case .removeDirectory: _ = try checked(unlinkat(folder.rawValue, name, AT_REMOVEDIR))
            case .move: try move(folder, name, call.target, mount, CUbiquity_RENAME_NOREPLACE)
            case .replace: try move(folder, name, call.target, mount, 0)
            case .touch:
                // Set both times: the modification time alone would count as a change of the content.
                let time = call.modifiedAt.timespec
                _ = try checked(utimensat(folder.rawValue, name, [time, time], AT_SYMLINK_NOFOLLOW))
            }
        }
    }

    private static func move(
        _ folder: FileDescriptor, _ name: UnsafePointer<CChar>, _ target: ReplayCall.Place?, _ mount: Mount,
        _ flags: Int32
    ) throws(Errno) {
        guard let target else { throw .EINVAL }
        let other = try open(target, mount)
        // Look the folder up first. The kernel moves a folder in use to the name at which it now finds it, but not
        // within a rename.
        _ = try checked(faccessat(folder.rawValue, name, F_OK, AT_SYMLINK_NOFOLLOW))
        _ = try target.name.withCPath { newName throws(Errno) in
            try checked(CUbiquity_renameat2(folder.rawValue, name, other.rawValue, newName, UInt32(flags)))
        }
    }

    /// Opens the folder and verifies that it is in the intended mount. Another file system, or none, may be mounted
    /// there by now, and the call must change nothing else.
    private static func open(_ place: ReplayCall.Place, _ mount: Mount) throws(Errno) -> FileDescriptor {
        var path = Array(mount.path.utf8)
        if !place.folder.isEmpty { path += [UInt8(ascii: "/")] + place.folder }
        let folder = try FileDescriptor.open(path, [.pathOnly, .directory, .noFollow])
        var found = CUbiquity_Identity()
        _ = try checked(CUbiquity_identity(folder.rawValue, &found))
        guard found.inode == place.inode, found.deviceMajor == 0, found.deviceMinor == mount.device,
            found.mount == mount.number
        else { throw .ESTALE }
        return folder
    }
}

/// The result of a system call that reports failure as -1.
private func checked(_ result: Int32) throws(Errno) -> Int32 {
    if result == -1 { throw Errno(rawValue: errno) }
    return result
}
