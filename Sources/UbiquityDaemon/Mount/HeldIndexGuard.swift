import Dispatch
import Logging
import UbiquityIndex
import UbiquitySystem

/// Ends the process if its index does not answer when the mount is to end.
///
/// An index that hangs (an endless transaction, a disk that does not respond) blocks every step of the ordinary end.
/// Ending at once loses nothing: all promised data is in the journal, and the next mount reads it.
final class HeldIndexGuard: Sendable {
    /// Limit for the index's answer after SIGTERM.
    static let terminationLimit = DispatchTimeInterval.seconds(4)
    /// Limit after `ubiquity unmount`. Longer, because the mount continues if programs use it.
    static let unmountLimit = DispatchTimeInterval.seconds(15)

    private let probe: @Sendable () throws -> Void
    private let onHeld: @Sendable () -> Void

    /// - Parameters:
    ///   - probe: blocks until the index has answered. Any outcome counts as an answer.
    ///   - onHeld: called on a thread of its own if the probe has not returned within the limit.
    init(probe: @escaping @Sendable () throws -> Void, onHeld: @escaping @Sendable () -> Void) {
        self.probe = probe
        self.onHeld = onHeld
    }

    convenience init(_ parts: MountParts) {
        self.init(probe: { _ = try parts.index.write(.local) { _ in } }) { [logger = parts.logger] in
            logger.critical("the index does not answer; the process ends, the next mount continues from the journal")
            ProcessHost.exit(1)
        }
    }

    /// Starts the probe and waits for its answer in the background.
    func start(limit: DispatchTimeInterval) {
        let hasAnswered = Lock(false)
        // Queues of their own: the pool's threads may all be waiting for the index.
        DispatchQueue(label: "index-probe").async { [probe] in
            _ = try? probe()
            hasAnswered.withLock { $0 = true }
        }
        DispatchQueue(label: "index-guard").asyncAfter(deadline: .now() + limit) { [onHeld] in
            if !hasAnswered.withLock({ $0 }) { onHeld() }
        }
    }
}
