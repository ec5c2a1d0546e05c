package import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// The direction of a transfer.
package enum TransferDirection: Sendable, Hashable { case upload, download }

/// A transfer that failed and waits for its next attempt.
package struct TransferProblem: Sendable, Hashable {
    package var error: UbiquityError
    package var retryAt: Timestamp
    package var attempts: Int
}

/// The failed transfers per item, for display and for the time of the next attempt.
///
/// They are kept in memory only: after a restart everything is tried at once.
final class Problems: Sendable {
    /// The number of items remembered. Above it, the one due first is dropped, and thus retried early.
    private static let capacity = 10_000

    private struct Key: Hashable {
        var item: ItemKey
        var direction: TransferDirection
    }

    private let table = Lock<[Key: TransferProblem]>([:])
    private let timekeeper: any Timekeeper
    private let random: any RandomSource

    init(timekeeper: any Timekeeper, random: any RandomSource) {
        self.timekeeper = timekeeper
        self.random = random
    }

    func note(_ error: UbiquityError, _ direction: TransferDirection, of item: ItemKey) {
        let now = timekeeper.now()
        table.withLock { table in
            let key = Key(item: item, direction: direction)
            let attempts = (table[key]?.attempts ?? 0) + 1
            var backoff = Backoff()
            var wait = Duration.zero
            for _ in 0..<min(attempts, 12) { wait = backoff.next(random) }
            if table.count >= Self.capacity, let first = table.min(by: { $0.value.retryAt < $1.value.retryAt }) {
                table[first.key] = nil
            }
            table[key] = TransferProblem(
                error: error, retryAt: now.advanced(bySeconds: wait / .seconds(1)), attempts: attempts)
        }
    }

    /// Records an error for display only. The next attempt waits for the cloud, or for a program that opens the file
    /// again.
    func show(_ error: UbiquityError, _ direction: TransferDirection, of item: ItemKey) {
        guard error.code != .cancelled, error.code != .stale else { return }
        let now = timekeeper.now()
        table.withLock { table in
            let key = Key(item: item, direction: direction)
            guard table[key] != nil || table.count < Self.capacity else { return }
            table[key] = TransferProblem(error: error, retryAt: now, attempts: table[key]?.attempts ?? 0)
        }
    }

    func clear(_ direction: TransferDirection, of item: ItemKey) {
        table.withLock { _ = $0.removeValue(forKey: Key(item: item, direction: direction)) }
    }

    /// Whether a download failed with that code.
    func areAny(_ code: UbiquityError.Code) -> Bool {
        table.withLock { table in table.contains { $0.key.direction == .download && $0.value.error.code == code } }
    }

    func clearAll() { table.withLock { $0.removeAll() } }

    func problem(_ direction: TransferDirection, of item: ItemKey) -> TransferProblem? {
        table.withLock { $0[Key(item: item, direction: direction)] }
    }

    /// Whether the item's transfer failed and its next attempt is not due yet.
    func isHeld(_ direction: TransferDirection, of item: ItemKey) -> Bool {
        guard let problem = problem(direction, of: item) else { return false }
        let now = timekeeper.now()
        // A time farther away was recorded before the clock was set back.
        return problem.retryAt > now && problem.retryAt <= now.advanced(bySeconds: Backoff.longest / .seconds(1))
    }

    /// The next attempt due after `now`, or nil if there is none.
    func nextRetry(_ direction: TransferDirection, after now: Timestamp) -> Timestamp? {
        table.withLock { $0.filter { $0.key.direction == direction }.map(\.value.retryAt).filter { $0 > now }.min() }
    }

    var all: [(item: ItemKey, direction: TransferDirection, problem: TransferProblem)] {
        table.withLock { $0.map { ($0.key.item, $0.key.direction, $0.value) } }
    }
}

extension UbiquityError {
    /// The same error for a content to be downloaded: the file exists, though the cloud lacks its content.
    var ofContent: UbiquityError {
        // An unreadable answer of the cloud is no invalid argument of the program either.
        code == .notFound || code == .invalid ? UbiquityError(.damaged, message, at: place, remedy: remedy) : self
    }

    /// Converts any error to a `UbiquityError`.
    package static func from(_ error: any Error) -> UbiquityError {
        switch error {
        case let error as UbiquityError: error
        case let full as CloudIsFull: full.reason
        case is CancellationError: UbiquityError(.cancelled, "cancelled")
        case is MissingChunks:
            UbiquityError(
                .damaged, "the cloud lacks a part of the content",
                remedy: "run 'ubiquity doctor --repair' on a device that has it")
        case is OutdatedCommit, is PackageConflict: WireFailure(error).error
        default: UbiquityError(.io, "\(error)")
        }
    }

    /// Whether the cloud was unreachable, as opposed to an error that it answered.
    package var isAboutConnection: Bool {
        switch code {
        case .offline, .timedOut, .signedOut, .tooManyRequests: true
        default: false
        }
    }
}
