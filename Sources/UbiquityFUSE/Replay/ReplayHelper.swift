internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// The daemon's end of a `ReplayProcess`.
///
/// One thread starts and uses it. The process ends with that thread, whatever happens to the daemon.
final class ReplayHelper: Sendable {
    let process: Int32
    private let socket: FileDescriptor
    private let isGone = Lock(false)
    private let isHanging = Lock(false)

    /// In milliseconds.
    private static let look: Int32 = 100

    enum Outcome: Hashable {
        case answered(Errno?)
        /// The process does not answer in time.
        case hanging
        /// The process has ended.
        case ended
    }

    /// Starts the process.
    /// - Parameter identify: called with the process's number before its first call, and with 0 after it has ended. The
    ///   second call comes on a thread of its own, while no other process can have the number.
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

    /// Makes the process perform a call. A process that hangs is killed and gets no more calls.
    /// - Parameter limit: number of looks for an answer, of `look` each.
    func perform(_ call: ReplayCall, atMost limit: Int) -> Outcome {
        guard !isHanging.withLock({ $0 }) else { return .ended }
        let message = call.encoded
        guard message.count <= ReplayCall.maximumLength else { return .answered(.ENAMETOOLONG) }
        guard send(socket.rawValue, message, message.count, Int32(MSG_NOSIGNAL)) == message.count else {
            return .ended
        }
        var isReadable = false
        // In many short looks, so that time in which the machine was suspended does not count.
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

    /// Kills the process. If it is in a call that cannot be interrupted, it ends after that call.
    func kill() { if !hasEnded { _ = Glibc.kill(process, SIGKILL) } }
}
