import Ubiquity
import UbiquityControl
import UbiquitySystem

/// Shows bytes, rate and remaining time of a mount's transfers on a progress line.
final class DownloadWatch: Sendable {
    /// Between two questions to the daemon.
    private static let interval = Duration.milliseconds(500)

    private let hasText = Lock(false)
    private let task: Lock<Task<Void, any Error>?> = Lock(nil)

    /// Starts to ask the daemon for the bytes that remain.
    init(
        _ doing: String, _ daemon: DaemonConnection, _ progress: Progress, downloads: Bool = true, uploads: Bool = false
    ) {
        guard ProcessHost.isTerminal(2) else { return }
        let hasText = hasText
        let work = Task {
            var transfer = ProgressLine(doing)
            while !Task.isCancelled {
                // A daemon that does not answer is noticed by the command itself.
                guard let status = try? await daemon.status() else { return }
                let remaining = (downloads ? status.downloads.bytes : 0) + (uploads ? status.uploads.bytes : 0)
                transfer.record(remaining: remaining, at: Output.now())
                if let text = transfer.text {
                    hasText.withLock { $0 = true }
                    progress.update(text)
                }
                try await Sleepers.shared.sleep(for: Self.interval)
            }
        }
        task.withLock { $0 = work }
    }

    /// Whether it has set the line: nothing else should then.
    var isShown: Bool { hasText.withLock { $0 } }

    func end() { task.withLock { $0 }?.cancel() }
}
