import Logging
import UbiquityCloudClient
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// A container that a mount serves: its parts, its commands, and the tasks that work on it.
///
/// A mount serves one after the other, as the account of the device changes (`AccountFollower`). While nobody is signed
/// in it serves an empty one, whose engine does not run.
final class ServedContainer: Sendable {
    /// Limit for the engine's calls in progress at the end.
    private static let endLimit = Duration.seconds(5)

    private let shown: Lock<DeviceAccount>
    let parts: MountParts
    let commands: MountCommands
    /// Nil if no service manager started the process.
    let service: ServiceReport?
    private let merges: MergeRunner
    /// Reports conflicts for as long as it exists.
    private let conflicts: ConflictWatch
    private let space: RememberedSpace
    private let follower: AccountFollower
    /// Nil if the mount holds the lock of this folder itself.
    private let lock: Lock<ProcessLock?>

    private struct Work {
        var engine: [Task<Void, Never>] = []
        var others: [Task<Void, any Error>] = []
    }
    private let work = Lock(Work())

    /// Opens the container. Every check that could refuse comes here.
    init(_ plan: Plan) throws {
        shown = Lock(plan.account)
        follower = plan.follower
        let folder = plan.folder
        try folder.make()
        IndexReserve(besideIndexAt: folder.index).giveIfFull()
        lock = Lock(folder.path == plan.home.path ? nil : try ProcessLock(folder.lock))
        parts = try MountAssembly(plan.settings, folder, plan.logger, account: plan.account, home: plan.home)
            .makeParts(plan.kernel, plan.log, numbers: plan.numbers, features: plan.features)
        merges = MergeRunner(parts)
        conflicts = ConflictWatch(parts)
        service = ServiceReport(parts.engine)
        commands = MountCommands(parts, merges, ending: plan.ending, follower: plan.follower)
        space = RememberedSpace(parts.folder, parts.timekeeper)
        if let absence = try plan.account.absence(deviceFolder: plan.settings.deviceFolder) {
            parts.engine.signOut(absence)
        }
    }

    /// The parts of a container.
    struct Plan {
        var account: DeviceAccount
        var settings: MountSettings
        var folder: ContainerFolder
        /// The folder that is the mount's source.
        var home: ContainerFolder
        var kernel: any KernelCache
        var numbers = NodeNumbers.first
        /// Nil for the mount's first container.
        var features: KernelFeatures?
        var ending: MountEnding
        var follower: AccountFollower
        var log: LogFile
        var logger: Logger
    }

    /// The account that it stands for.
    var account: DeviceAccount { shown.withLock { $0 } }

    /// An empty container stands for another account from now on.
    func relabel(_ account: DeviceAccount, _ absence: String) {
        shown.withLock { $0 = account }
        parts.engine.signOut(absence)
        announce()
    }

    /// The device has signed in to the same account again, with another token. Open files and programs stay.
    /// - Returns: false if the container must be opened anew.
    func renew(_ account: DeviceAccount) -> Bool {
        guard case .signedIn(let before) = self.account, case .signedIn(let signIn) = account,
            before.url == signIn.url, before.account == signIn.account, before.certificates == signIn.certificates,
            before.cloud == nil || signIn.cloud == nil || before.cloud == signIn.cloud
        else { return false }
        shown.withLock { $0 = account }
        parts.client.setToken(signIn.token)
        parts.engine.retryNow()
        announce()
        return true
    }

    // MARK: Beginning

    /// Starts the tasks.
    func start() {
        do { try space.recall(parts.engine.connection) } catch {
            parts.logger.warning(
                "cannot read the stored account usage; the cloud reports it again", metadata: ["reason": "\(error)"])
        }
        let pump = EventPump(parts, commands.events), watcher = QueryPump(parts, commands.queries)
        let device = parts.settings.deviceFolder
        let housekeeping = Housekeeping(parts: parts, space: space, service: service) { [follower, shown] in
            // If the files cannot be read now, the next look reads them.
            guard let now = try? DeviceAccount.load(deviceFolder: device) else { return false }
            if now == shown.withLock({ $0 }) { return true }
            Task { _ = try? await follower.follow() }
            return false
        }
        let isVacant = account.isVacant
        work.withLock { [parts, merges] work in
            if !isVacant {
                work.engine = [
                    Task { await parts.engine.run() }, Task { await merges.run() },
                    Task { await parts.keyValues?.run() },
                ]
            }
            work.others = [
                Task { try await pump.run() }, Task { try await watcher.run() }, Task { try await housekeeping.run() },
            ]
        }
    }

    // MARK: The end

    /// Nobody is signed in any more: transfers stop, and programs that wait get errors.
    func signOut(_ reason: String) async {
        parts.engine.signOut(reason)
        let tasks = work.withLock { $0.engine }
        for task in tasks { task.cancel() }
        await Self.end(of: tasks, within: Self.endLimit)
    }

    /// Ends the queries and the coordination of programs: their items have left.
    func dismissClients() {
        commands.queries.close()
        parts.coordination.close()
    }

    /// Tells listeners that this container is shown now.
    func announce() {
        let contact = commands.status.contact(parts.engine.connection.status)
        var event = ControlEvent(.identityChanged, at: parts.timekeeper.now())
        event.state = contact.state
        event.error = account.isVacant ? contact.reason : nil
        commands.events.send(event)
        commands.keyValues.announce()
    }

    /// The mount is ending: another process may wait for the container.
    func markEnding() { lock.withLock { $0?.markEnding() } }

    /// Ends the tasks and writes everything to the disk. No request of the kernel reaches the container any more.
    func stopWork() async {
        let (engine, others) = work.withLock { ($0.engine, $0.others) }
        for task in others { task.cancel() }
        parts.fileSystem.flush()
        // If this fails, the next start asks the cloud.
        try? space.note(parts.engine.connection.status, isLast: true)
        do { try parts.fileSystem.flushJournal() } catch {
            parts.logger.warning(
                "cannot move contents to their files; the next start does it", metadata: ["reason": "\(error)"])
        }
        parts.fileSystem.endPreparation()
        parts.fileSystem.endUnnamed()
        for task in engine { task.cancel() }
        await Self.end(of: engine, within: Self.endLimit)
    }

    /// Closes the container after `stopWork`.
    func close() async throws {
        await parts.client.shutdown()
        parts.keyValues?.close()
        do { try parts.engine.tidyUp() } catch {
            parts.logger.warning("cannot remove unused files; the next start does it", metadata: ["reason": "\(error)"])
        }
        try parts.index.close()
        // The same account may be opened again.
        lock.withLock { $0 = nil }
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
