import UbiquityCore
import UbiquitySystem
import UbiquityVFS

/// A kernel that serves files itself: a test writes to the backing file like a program, without the file system.
final class FakePassthrough: Passthrough {
    private struct State {
        var next: Int32 = 1
        var files: [BackingID: FileDescriptor] = [:]
        var registrations = 0
    }
    private let state = Lock(State())
    let timesTellAll = true
    var isActive: Bool { true }

    /// The backing files that are registered now, and all that ever were.
    var count: Int { state.withLock { $0.files.count } }
    var registrations: Int { state.withLock { $0.registrations } }

    func register(_ file: FileDescriptor) -> BackingID? {
        state.withLock { state in
            let id = BackingID(rawValue: state.next)
            state.next += 1
            state.registrations += 1
            state.files[id] = file
            return id
        }
    }

    func unregister(_ id: BackingID) { state.withLock { _ = $0.files.removeValue(forKey: id) } }

    /// Opens the kernel's file for a handle.
    func open(_ opened: OpenedFile, _ flags: FileDescriptor.Flags = .readWrite) throws -> FileDescriptor {
        guard let id = opened.backing, let file = state.withLock({ $0.files[id] }) else { throw Errno.EINVAL }
        return try FileDescriptor.open("/proc/self/fd/\(file.rawValue)", flags)
    }
}
