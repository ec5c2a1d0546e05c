internal import UbiquityCore
internal import UbiquitySystem

/// The kernel's side of a session, as `/sys/fs/fuse/connections` and `/sys/class/bdi` show it.
struct FUSEConnection: Sendable {
    /// The minor device number of the mount.
    let number: UInt32

    /// Ends the connection at once: every request, waiting or new, fails. The last resort.
    func abort() throws(Errno) {
        let file = try FileDescriptor.open("/sys/fs/fuse/connections/\(number)/abort", .writeOnly)
        try file.write(Array("1".utf8))
    }

    /// Sets how far the kernel reads ahead of a sequential reader. Its default of 128 KiB costs one round trip per 128
    /// KiB. Only root may set it; without it reading is merely slower.
    func setReadAhead(bytes: Int) throws(Errno) {
        let file = try FileDescriptor.open("/sys/class/bdi/0:\(number)/read_ahead_kb", .writeOnly)
        try file.write(Array("\(bytes / 1024)".utf8))
    }
}
