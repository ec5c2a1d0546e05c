import FoundationEssentials
import UbiquitySystem

/// How much of a document's content has been downloaded while it is being read.
///
/// - Source: `UIDocument.progress`, a `Progress`.
@MainActor
public final class DocumentProgress {
    /// Interval between two readings.
    private static let interval: Duration = .milliseconds(200)

    /// From 0 to 1. It is 1 for a document that needs no download.
    public private(set) var fractionCompleted = 1.0
    /// Called with each new value.
    public var onChange: (@MainActor (Double) -> Void)?
    private var watching: Task<Void, Never>?
    private var reading: Task<Void, any Error>?

    init() {}

    /// Stops the reading: `open` or `revert` throws `CancellationError` or `.userCancelled`. The download ends if
    /// nobody else waits for it.
    public func cancel() { reading?.cancel() }

    /// Runs a reading of the file, and watches its download meanwhile.
    func watch(_ url: URL, _ body: @escaping @MainActor @Sendable () async throws -> Void) async throws {
        let reading = Task(operation: body)
        self.reading = reading
        watching = Task { [weak self] in
            repeat {
                guard let fraction = await Self.fraction(of: url), let self, self.reading == reading else { return }
                self.set(fraction)
            } while (try? await Sleepers.shared.sleep(for: Self.interval)) != nil
        }
        defer {
            if self.reading == reading { self.reading = nil }
            watching?.cancel()
            watching = nil
        }
        try await withTaskCancellationHandler { try await reading.value } onCancel: { reading.cancel() }
        set(1)
    }

    private func set(_ fraction: Double) {
        guard fraction != fractionCompleted else { return }
        fractionCompleted = fraction
        onChange?(fraction)
    }

    /// Nil outside of containers.
    private static func fraction(of url: URL) async -> Double? {
        let values = try? await UbiquitousItem(at: url).resourceValues(forKeys: [.percentDownloaded])
        return values?.ubiquitousItemPercentDownloaded.map { $0 / 100 }
    }
}
