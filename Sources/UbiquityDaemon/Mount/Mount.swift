import Logging
import UbiquityCloudClient
import UbiquityContent
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS
import UbiquityWire

/// A mounted container. `MountAssembly` makes its parts; this type runs them and shuts them down.
final class Mount: Sendable {
    /// The session's own limits (3 s for the mount's users, 10 s for a hanging kernel) and a little more.
    private static let terminationLimit = Duration.seconds(15)
    /// Limit for the engine's calls in progress at the end.
    private static let endLimit = Duration.seconds(5)
    /// The kernel ends the session first and then forgets its inodes: two to three seconds for a million files. The
    /// unmounting command gets its answer after that.
    private static let unmountLimit = Duration.seconds(60)

    let parts: MountParts
    let commands: MountCommands
    private let merges: MergeRunner
    /// Reports conflicts for as long as it exists.
    private let conflicts: ConflictWatch
    let session: FUSESession
    private let lock: ProcessLock
    private let server: ControlServer
    /// Nil if no service manager started the process.
    let service: ServiceReport?

    /// Mounts the container. Every check that could refuse comes before the mount appears.
    init(_ settings: MountSettings, logger: Logger, log: LogFile) async throws {
        let folder = try MountLauncher.containerFolder(settings)
        try folder.make()
        IndexReserve(besideIndexAt: folder.index).giveIfFull()
        lock = try ProcessLock(folder.lock)
        let notifier = KernelNotifier(logger: logger.part("kernel"))
        parts = try MountAssembly(settings, folder, logger).makeParts(notifier, log)
        merges = MergeRunner(parts)
        conflicts = ConflictWatch(parts)
        service = ServiceReport(parts.engine)
        commands = MountCommands(parts, merges)
        server = ControlServer(
            path: folder.controlSocket, routes: ControlRoutes(commands: commands),
            logger: logger.part("control"))
        do {
            try await server.start()
            session = try FUSESession(
                fileSystem: parts.claimedFileSystem, notifier: notifier, passthrough: parts.kernel.passthrough,
                rings: parts.kernel.rings, configuration: FUSESession.Configuration(
                    mountPoint: settings.mountPoint, source: folder.path, options: settings.options),
                logger: logger.part("fuse"))
        } catch {
            await server.stop()
            await parts.client.shutdown()
            throw error
        }
    }

    /// Serves until the mount is gone, then shuts everything down.
    func run() async throws {
        let space = RememberedSpace(parts.folder, parts.timekeeper)
        do { try space.recall(parts.engine.connection) } catch {
            parts.logger.warning(
                "cannot read the stored account usage; the cloud reports it again", metadata: ["reason": "\(error)"])
        }
        let engine = Task { [parts] in await parts.engine.run() }
        let pump = EventPump(parts, commands.events)
        let events = Task { try await pump.run() }
        let watcher = QueryPump(parts, commands.queries)
        let queries = Task { try await watcher.run() }
        let merges = Task { [merges] in await merges.run() }
        let upkeep = Housekeeping(parts: parts, space: space, service: service)
        let housekeeping = Task { try await upkeep.run() }
        let outcome = await serve()
        service?.stopping()
        lock.markEnding()
        events.cancel()
        queries.cancel()
        housekeeping.cancel()
        merges.cancel()
        parts.fileSystem.flush()
        // If this fails, the next start asks the cloud.
        try? space.note(parts.engine.connection.status, isLast: true)
        do { try parts.fileSystem.flushJournal() } catch {
            parts.logger.warning(
                "cannot move contents to their files; the next start does it", metadata: ["reason": "\(error)"])
        }
        parts.fileSystem.endPreparation()
        parts.fileSystem.endUnnamed()
        engine.cancel()
        await Self.end(of: [engine, merges], within: Self.endLimit)
        await commands.unmount.activity.waitUntilIdle(atMost: Self.unmountLimit)
        await server.stop()
        await parts.client.shutdown()
        do { try parts.engine.tidyUp() } catch {
            parts.logger.warning("cannot remove unused files; the next start does it", metadata: ["reason": "\(error)"])
        }
        try parts.index.close()
        try outcome.get()
    }

    /// Serves until the mount is gone. Serving blocks, so it has a thread of its own.
    private func serve() async -> Result<Void, any Error> {
        let thread = BlockingPool(name: "fuse-loop", threads: 1)
        let serving = Task { [session, end = commands.unmount.end] in
            do {
                try await thread.run { try session.run() }
                end.note(.success(()))
            } catch {
                end.note(.failure(error))
            }
        }
        defer { serving.cancel() }
        do {
            try await commands.unmount.end.wait()
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    /// Ends the mount even while programs use it: after a moment they get errors.
    func terminate() {
        lock.markEnding()
        commands.unmount.indexGuard.start(limit: HeldIndexGuard.terminationLimit)
        session.stop()
        commands.unmount.end.force(after: Self.terminationLimit)
    }

    /// Waits until the tasks have ended, or for `limit`. (A task group would wait for all of them: waiting for another
    /// task's value does not end by cancellation.)
    private static func end(of tasks: [Task<Void, Never>], within limit: Duration) async {
        let (ends, source) = AsyncStream.makeStream(of: Never.self)
        let waiting = Task {
            for task in tasks { await task.value }
            source.finish()
        }
        let clock = Task {
            try? await Sleepers.shared.sleep(for: limit)
            source.finish()
        }
        for await _ in ends {}
        waiting.cancel()
        clock.cancel()
    }
}
