import UbiquityCloudClient
import UbiquitySync
import UbiquitySystem

/// Reports a mount's state to the service manager that started it, so that `systemctl status` shows it.
///
/// `Housekeeping` updates it after its own work. So the watchdog message shows that the index can be used, not only
/// that the process exists.
final class ServiceReport: Sendable {
    private let manager: ServiceManager
    private let engine: SyncEngine
    /// The last status that was sent.
    private let last = Lock("")

    /// Returns nil if no service manager started this process.
    init?(_ engine: SyncEngine, to manager: ServiceManager? = ServiceManager()) {
        guard let manager else { return nil }
        self.manager = manager
        self.engine = engine
    }

    /// The mount is usable.
    func ready() { manager.send(.ready) }

    /// The mount ends.
    func stopping() { manager.send(.stopping) }

    /// Sends the status if it changed, and the watchdog message if the manager expects it. Reads the index.
    func update() throws {
        let text = Self.text(try engine.summary())
        let isNew = last.withLock { last in
            defer { last = text }
            return last != text
        }
        if isNew { manager.send(.status(text)) }
        if manager.watches { manager.send(.watchdog) }
    }

    /// The sentence that people read: "offline; 3 items to upload".
    static func text(_ summary: SyncSummary) -> String {
        var parts: [String] = []
        switch summary.connection.phase {
        case .connecting: parts.append("connecting")
        case .online: break
        case .offline: parts.append("offline")
        case .paused: parts.append("paused")
        case .signedOut: parts.append("signed out")
        }
        if summary.pendingUploads > 0 { parts.append("\(count(summary.pendingUploads)) to upload") }
        if summary.activeDownloads > 0 { parts.append("\(count(summary.activeDownloads)) to download") }
        return parts.isEmpty ? "up to date" : parts.joined(separator: "; ")
    }

    private static func count(_ number: Int) -> String { "\(number) item\(number == 1 ? "" : "s")" }
}
