import Logging
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Periodic work while a mount runs.
struct Housekeeping: Sendable {
    let parts: MountParts
    let space: RememberedSpace
    /// Nil if no service manager started the process.
    let service: ServiceReport?
    /// Makes the mount show the account of the device if that has changed. The command that changed it tells the mount;
    /// this is for a command that died before. Returns whether the container still stands for the account.
    let follow: @Sendable () -> Bool

    /// Interval of checkpoints of the index and of writing batches.
    private static let interval = Duration.seconds(5)

    func run() async throws {
        var watch = IdleWatch()
        while true {
            try await parts.timekeeper.sleep(for: Self.interval)
            // `df` and programs get the last known usage without waiting, so keep it current.
            if parts.engine.connection.isUsageOutdated {
                Task { [engine = parts.engine] in await engine.refreshUsage() }
            }
            if follow() {
                await attempt { parts in
                    try RefusedSignIn(deviceFolder: parts.settings.deviceFolder).record(parts.engine.connection.status)
                }
            }
            await attempt { try space.note($0.engine.connection.status) }
            await attempt { try RememberedAccess($0.folder).note($0.engine.connection) }
            await attempt { $0.fileSystem.flush() }
            // A content that cannot be written must not keep the index from its checkpoint.
            await attempt { try $0.fileSystem.flushJournal() }
            await attempt { try $0.index.checkpoint() }
            if let service { await attempt { _ in try service.update() } }
            guard watch.beginsToRest(ProcessHost.computedTime) else { continue }
            await attempt {
                $0.index.releaseMemory()
                // The allocator keeps freed memory, after much work for hours.
                ProcessHost.returnMemory()
            }
        }
    }

    private func attempt(_ work: @escaping @Sendable (MountParts) throws -> Void) async {
        do { try await parts.pool.run { [parts] in try work(parts) } } catch is CancellationError {
            // The mount ends, which `run` notices.
        } catch {
            parts.logger.error("housekeeping failed", metadata: ["error": "\(error)"])
        }
    }
}
