internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// The daemon's end of a `ReplayProcess`.
///
/// Used by one thread, which also starts it: the process ends with that thread, whatever becomes of the daemon.
final class ReplayHelper: Sendable {
    let process: Int32
    private let socket: FileDescriptor
    private let isGone = Lock(false)
    private let isHanging = Lock(false)

    /// Milliseconds.
    private static let look: Int32 = 100

    enum Outcome: Hashable {
        case answered(Errno?)
        /// It does not answer in time.
        case hanging
        /// It has ended.
        case ended
    }

    /// Starts it.
    /// - Parameter identify: called with its number before it makes a call, and with 0 when it has ended (on a thread
    ///   of its own, while no other process can have its number).
    init(
        executable: String, mount: ReplayProcess.Mount, identify: @escaping @Sendable (Int32) -> Void
    ) throws(Errno) {
        var ends: [Int32] = [-1, -1]
        let type = Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw Errno(rawValue: errno) }
        socket = FileDescriptor(owning: ends[0])
        let other = FileDescriptor(owning: ends[1])
        let nowhere = try FileDescriptor.open("/dev/null", .readWrite)
        process = try DetachedProcess.spawn(
            executable, ["ubiquity", ReplayProcess.argument] + mount.arguments, folder: "/", log: nowhere,
            report: other)
        identify(process)
        DedicatedThread.start(name: "replay-end") { [self] in waitForEnd { identify(0) } }
    }

    private func waitForEnd(_ beforeReaping: () -> Void) {
        var information = siginfo_t()
        while waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        beforeReaping()
        isGone.withLock { $0 = true }
        while waitpid(process, nil, 0) == -1, errno == EINTR {}
    }

    var hasEnded: Bool { isGone.withLock { $0 } }

    /// Has it make the calls. One that hangs is told to end, and makes no more.
    /// - Parameter limit: how often it is looked after, each time for `look`.
    func perform(_ call: ReplayCall, atMost limit: Int) -> Outcome {
        guard !isHanging.withLock({ $0 }) else { return .ended }
        let message = call.encoded
        guard message.count <= ReplayCall.maximumLength else { return .answered(.ENAMETOOLONG) }
        guard send(socket.rawValue, message, message.count, Int32(MSG_NOSIGNAL)) == message.count else {
            return .ended
        }
        var isReadable = false
        // In many short looks: a machine that stood still has not waited.
        for _ in 0..<limit where !isReadable {
            guard let hasAnswer = try? socket.waitUntilReadable(milliseconds: Self.look) else { return .ended }
            isReadable = hasAnswer
        }
        guard isReadable else {
            isHanging.withLock { $0 = true }
            kill()
            return .hanging
        }
        var answer: Int32 = 0
        guard recv(socket.rawValue, &answer, MemoryLayout<Int32>.size, 0) == MemoryLayout<Int32>.size else {
            return .ended
        }
        return .answered(answer == 0 ? nil : Errno(rawValue: answer))
    }

    /// Has it end, at once or, if a call of its cannot be interrupted, after that.
    func kill() { if !hasEnded { _ = Glibc.kill(process, SIGKILL) } }
}
