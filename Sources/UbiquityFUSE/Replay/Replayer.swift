internal import CUbiquityShims
internal import Glibc
internal import Logging
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// Replays remote changes on the mount, in order.
///
/// It has a thread of its own, which serves no requests, holds no lock and never uses the mount itself. One replay
/// takes some 100 µs. One that exceeds the limit waits for a program's call. Then the waiting replays are dropped, and
/// no further one starts until it has ended.
final class Replayer: Sendable {
    /// In looks of 100 ms. A change of a name may wait 2 s for a client, with the folder locked.
    private static let limit = 30
    /// Pause between two attempts to start the process.
    private static let pause: Duration = .seconds(10)

    /// Replays of the container that the mount serves.
    private let current: Lock<ReplayCalls>
    private let isOver = Lock(false)
    private let mount: ReplayProcess.Mount
    private let logger: Logger

    /// Nil if the mount cannot be distinguished from others.
    init?(replays: ReplayCalls, mountPoint: String, device: UInt32?, logger: Logger) {
        var found = CUbiquity_Identity()
        guard let device, let folder = try? FileDescriptor.open(mountPoint, [.pathOnly, .directory, .noFollow]),
            CUbiquity_identity(folder.rawValue, &found) == 0, found.deviceMajor == 0, found.deviceMinor == device
        else { return nil }
        current = Lock(replays)
        self.logger = logger
        mount = ReplayProcess.Mount(path: mountPoint, device: device, number: found.mount)
    }

    private var replays: ReplayCalls { current.withLock { $0 } }

    func start() {
        replays.begin()
        DedicatedThread.start(name: "replays") { [self] in run() }
    }

    /// Replays the changes of another container from now on. `body` makes the kernel's requests reach it; no replay
    /// uses the mount meanwhile.
    func exchange(_ next: ReplayCalls, _ body: () -> Void) {
        let former = replays
        former.paused {
            // Late calls of the process must not change the next container.
            next.adoptProcess(of: former)
            current.withLock { $0 = next }
            body()
        }
        next.begin()
        former.end()
    }

    /// Ends the thread and the process. Returns at once.
    func end() {
        isOver.withLock { $0 = true }
        replays.end()
    }

    private func run() {
        var helper: ReplayHelper?
        var failedAt: ContinuousClock.Instant?
        while !isOver.withLock({ $0 }) {
            // Ends when another container is served.
            while let call = replays.next() {
                // Never run two processes: a hanging one's requests must be recognized as long as any may come.
                if helper?.hasEnded == true { helper = nil }
                if helper == nil, failedAt.map({ ContinuousClock.now - $0 > Self.pause }) ?? true {
                    helper = makeHelper()
                    failedAt = helper == nil ? ContinuousClock.now : nil
                }
                carryOut(call, helper)
            }
        }
        helper?.kill()
    }

    private func carryOut(_ call: ReplayCall, _ helper: ReplayHelper?) {
        guard let helper else { return replays.finish(false) }
        switch helper.perform(call, atMost: Self.limit) {
        case .answered(let error):
            if let error { logger.debug("not replayed", metadata: ["error": "\(error)", "call": "\(call.kind)"]) }
            replays.finish(error == nil)
        case .ended: replays.finish(false)
        case .hanging:
            logger.info("a remote change waits for a program's call; watching programs miss some events")
            replays.finish(false)
            replays.drop()
        }
    }

    private func makeHelper() -> ReplayHelper? {
        do throws(Errno) {
            return try ReplayHelper(executable: ProcessHost.executable, mount: mount) { [current] process in
                current.withLock { $0 }.setProcess(process)
            }
        } catch {
            logger.warning("watching programs get no events of remote changes", metadata: ["error": "\(error)"])
            return nil
        }
    }
}
