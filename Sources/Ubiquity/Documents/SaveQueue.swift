import UbiquitySystem

/// The saves and other file accesses of one document, one after the other.
@MainActor
final class SaveQueue {
    /// The time of the next save that nobody asks for.
    let timer = AutosaveTimer()
    private var last: Task<Void, any Error>?

    /// Runs `body` after the accesses begun before.
    func run(_ body: @escaping @MainActor @Sendable () async throws -> Void) async throws {
        let before = last
        let access = Task {
            // The caller of that access gets its error.
            _ = await before?.result
            try await body()
        }
        last = access
        defer { if last == access { last = nil } }
        try await access.value
    }

    /// Waits for the accesses that have begun.
    func wait() async {
        // The callers of those accesses get their errors.
        if let last { _ = await last.result }
    }
}

/// The delay between a change and the save that follows by itself.
@MainActor
final class AutosaveTimer {
    var delay: Duration = .seconds(10)
    private var waiting: Task<Void, Never>?

    /// Runs `save` after the delay, unless a save waits already.
    func schedule(_ save: @escaping @MainActor @Sendable () async -> Void) {
        guard waiting == nil else { return }
        waiting = Task { [weak self, delay] in
            // A cancelled autosave does nothing.
            guard (try? await Sleepers.shared.sleep(for: delay)) != nil else { return }
            self?.waiting = nil
            await save()
        }
    }

    func cancel() {
        waiting?.cancel()
        waiting = nil
    }
}
