import UbiquityControl
import UbiquitySystem

/// A line on the terminal that names what the command waits for. Shown only if standard error is a terminal, and only
/// after a noticeable wait.
final class Progress: Sendable {
    /// A shorter wait shows no line.
    static let patience = Duration.milliseconds(150)
    /// Interval of updates.
    static let interval = Duration.milliseconds(200)

    private let text: Lock<String>
    private let isShown = Lock(false)

    private init(_ text: String) { self.text = Lock(text) }

    /// Replaces the line's text.
    func update(_ text: String) { self.text.withLock { $0 = text } }

    /// Removes the line before other output; the next tick shows it again.
    func clear() {
        let wasShown = isShown.withLock { shown in
            defer { shown = false }
            return shown
        }
        if wasShown { ProcessHost.write("\r\u{1B}[K", to: 2) }
    }

    /// Runs `work` and shows `text` meanwhile.
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
