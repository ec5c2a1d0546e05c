import UbiquityControl
import UbiquitySystem

/// A line on the terminal that says what is being waited for; only when standard error is one, and only once the wait
/// has been long enough for a person to wonder.
final class Progress: Sendable {
    /// Below this a wait is no wait.
    static let patience = Duration.milliseconds(150)
    /// Between two states of the line.
    static let interval = Duration.milliseconds(200)

    private let text: Lock<String>
    private let isShown = Lock(false)

    private init(_ text: String) { self.text = Lock(text) }

    /// Replaces what the line says.
    func update(_ text: String) { self.text.withLock { $0 = text } }

    /// Takes the line away, so that something else can be written; it comes back with the next tick.
    func clear() {
        let wasShown = isShown.withLock { shown in
            defer { shown = false }
            return shown
        }
        if wasShown { ProcessHost.write("\r\u{1B}[K", to: 2) }
    }

    /// Does the work and shows `text` meanwhile.
    static func showing<Value>(
        _ text: String, unless isQuiet: Bool = false, during work: (Progress) async throws -> Value
    ) async throws -> Value {
        let progress = Progress(text)
        guard !isQuiet, ProcessHost.isTerminal(2) else { return try await work(progress) }
        let ticker = Task { try await progress.tick() }
        defer {
            ticker.cancel()
            progress.clear()
        }
        return try await work(progress)
    }

    private func tick() async throws {
        try await Sleepers.shared.sleep(for: Self.patience)
        while !Task.isCancelled {
            show()
            try await Sleepers.shared.sleep(for: Self.interval)
        }
    }

    private func show() {
        let width = max(20, (ProcessHost.terminalWidth ?? 80) - 1)
        let line = String(PlainText.escaped(text.withLock { $0 }).prefix(width))
        isShown.withLock { $0 = true }
        ProcessHost.write("\r\(line)\u{1B}[K", to: 2)
    }
}
