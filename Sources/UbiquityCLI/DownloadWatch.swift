import Ubiquity
import UbiquityControl
import UbiquitySystem

/// Shows bytes, rate and remaining time of a mount's transfers on a progress line.
final class DownloadWatch: Sendable {
    /// Interval of asking the daemon.
    private static let interval = Duration.milliseconds(500)

    private let hasText = Lock(false)
    private let task: Lock<Task<Void, any Error>?> = Lock(nil)

    /// Starts asking the daemon for the remaining bytes.
    init(
        _ doing: String, _ daemon: DaemonConnection, _ progress: Progress, downloads: Bool = true, uploads: Bool = false
    ) {
        guard ProcessHost.isTerminal(2) else { return }
        let hasText = hasText
        let work = Task {
            var transfer = ProgressLine(doing)
            while !Task.isCancelled {
                // The command itself notices a daemon that does not answer.
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

    /// Whether it has set the progress line; then nothing else should.
    var isShown: Bool { hasText.withLock { $0 } }

    func end() { task.withLock { $0 }?.cancel() }
}
