import Logging
import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// A mount: its session with the kernel, its local socket, and the container that it serves now.
final class Mount: Sendable {
    /// The session's own limits (3 s for the mount's users, 10 s for a hanging kernel) and a little more.
    private static let terminationLimit = Duration.seconds(15)
    /// The kernel ends the session first and then forgets its inodes: two to three seconds for a million files. The
    /// unmounting command gets its answer after that.
    private static let unmountLimit = Duration.seconds(60)

    let session: FUSESession
    let ending: MountEnding
    /// Lock of the folder that is the mount's source. No other process can serve the same container of the device while
    /// this one exists, whatever its account is by then.
    private let lock: ProcessLock
    private let server: ControlServer
    private let follower: AccountFollower

    private let current: CurrentContainer

    /// The container that the mount serves now.
    var served: ServedContainer { current.container }
    var parts: MountParts { served.parts }
    /// Nil if no service manager started the process.
    var service: ServiceReport? { served.service }

    /// Mounts the container. Every check that could refuse comes before the mount appears.
    init(_ settings: MountSettings, logger: Logger, log: LogFile) async throws {
        let account = try DeviceAccount.load(deviceFolder: settings.deviceFolder)
        let home = ContainerFolder(
            account: try account.folder(ofDevice: settings.deviceFolder), container: settings.container)
        try home.make()
        lock = try ProcessLock(home.lock)
        let notifier = KernelNotifier(logger: logger.part("kernel"))
        ending = MountEnding()
        follower = AccountFollower()
        let plan = ServedContainer.Plan(
            account: account, settings: settings, folder: home, home: home, kernel: notifier, ending: ending,
            follower: follower, log: log, logger: logger)
        let first = try ServedContainer(plan)
        current = CurrentContainer(first)
        let host = ControlHost(first.commands)
        server = ControlServer(path: home.controlSocket, host: host, logger: logger.part("control"))
        do {
            try await server.start()
            session = try FUSESession(
                fileSystem: first.parts.claimedFileSystem, notifier: notifier,
                passthrough: first.parts.kernel.passthrough, rings: first.parts.kernel.rings,
                configuration: FUSESession.Configuration(
                    mountPoint: settings.mountPoint, source: home.path, options: settings.options),
                logger: logger.part("fuse"))
        } catch {
            await server.stop()
            await first.parts.client.shutdown()
            throw error
        }
        follower.bind(current, plan, session, host)
    }

    /// Serves until the mount is gone, then shuts everything down.
    func run() async throws {
        served.start()
        // The account may have changed since the container was chosen.
        let following = Task { [follower] in _ = try? await follower.follow() }
        let outcome = await serve()
        service?.stopping()
        lock.markEnding()
        await following.value
        await follower.end()
        let last = served
        last.markEnding()
        await last.stopWork()
        await ending.activity.waitUntilIdle(atMost: Self.unmountLimit)
        await server.stop()
        try await last.close()
        try outcome.get()
    }

    /// Serves until the mount is gone. Serving blocks, so it has a thread of its own.
    private func serve() async -> Result<Void, any Error> {
        let thread = BlockingPool(name: "fuse-loop", threads: 1)
        let serving = Task { [session, end = ending.end] in
            do {
                try await thread.run { try session.run() }
                end.note(.success(()))
            } catch {
                end.note(.failure(error))
            }
        }
        defer { serving.cancel() }
        do {
            try await ending.end.wait()
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    /// Ends the mount even while programs use it: after a moment they get errors.
    func terminate() {
        lock.markEnding()
        served.markEnding()
        served.commands.unmount.indexGuard.start(limit: HeldIndexGuard.terminationLimit)
        session.stop()
        ending.end.force(after: Self.terminationLimit)
    }
}

/// The parts of a mount that outlive each container that it serves.
struct MountEnding: Sendable {
    /// Listeners stay when the account changes.
    let events = EventHub()
    let end = MountEnd()
    /// Callers that have asked to unmount.
    let activity = ControlActivity()
}
