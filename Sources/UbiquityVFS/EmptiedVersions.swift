internal import UbiquityCore
internal import UbiquitySystem

/// Files whose last version a process has just removed. Their folder in `.versions` is gone with it, but `rm -r` ends
/// by removing that folder, and would report a failure.
final class EmptiedVersions: Sendable {
    /// Longest time from the removal of the last version to that of its folder.
    private static let window = Duration.seconds(5)
    /// Files remembered; beyond that the oldest are forgotten.
    private static let capacity = 256

    private struct Removal {
        var key: ItemKey
        var process: Int32
        var at: Duration
    }

    private let removals = Lock<[Removal]>([])

    func add(_ key: ItemKey, by process: Int32, now: Duration) {
        removals.withLock { removals in
            removals.removeAll { $0.key == key || now - $0.at >= Self.window }
            if removals.count >= Self.capacity { removals.removeFirst() }
            removals.append(Removal(key: key, process: process, at: now))
        }
    }

    /// Whether the process still sees the folder.
    func isSeen(_ key: ItemKey, by process: Int32, now: Duration) -> Bool {
        removals.withLock { removals in
            removals.contains { $0.key == key && $0.process == process && now - $0.at < Self.window }
        }
    }
}
