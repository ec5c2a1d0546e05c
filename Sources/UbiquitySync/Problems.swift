package import UbiquityCore
internal import UbiquitySystem

/// Which way content was to travel.
package enum TransferDirection: Sendable, Hashable { case upload, download }

/// A transfer that failed and waits for its next attempt.
package struct TransferProblem: Sendable, Hashable {
    package var error: UbiquityError
    package var retryAt: Timestamp
    package var attempts: Int
}

/// The transfers that failed, per item: shown to people, and left alone until their time has come.
///
/// In memory: after a restart everything is tried at once.
final class Problems: Sendable {
    /// Items remembered. Beyond, the earliest due is dropped and so tried again early.
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

    /// Remembers why, for people only: the next attempt waits for the cloud, or for somebody who opens the file again.
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
        // One that is farther away was noted before the clock was set back.
        return problem.retryAt > now && problem.retryAt <= now.advanced(bySeconds: Backoff.longest / .seconds(1))
    }

    /// The next attempt that is due after `now`; nil if there is none.
    func nextRetry(_ direction: TransferDirection, after now: Timestamp) -> Timestamp? {
        table.withLock { $0.filter { $0.key.direction == direction }.map(\.value.retryAt).filter { $0 > now }.min() }
    }

    var all: [(item: ItemKey, direction: TransferDirection, problem: TransferProblem)] {
        table.withLock { $0.map { ($0.key.item, $0.key.direction, $0.value) } }
    }
}

extension UbiquityError {
    /// The same, of a content that is to come: the file is there, though the cloud has not what is in it.
    var ofContent: UbiquityError {
        // Nor has a program passed anything wrong if the cloud's answer cannot be read.
        code == .notFound || code == .invalid ? UbiquityError(.damaged, message, at: place, remedy: remedy) : self
    }

    /// Any error as one of ours.
    package static func from(_ error: any Error) -> UbiquityError {
        switch error {
        case let error as UbiquityError: error
        case let full as CloudIsFull: full.reason
        case is CancellationError: UbiquityError(.cancelled, "cancelled")
        default: UbiquityError(.io, "\(error)")
        }
    }

    /// Whether the cloud could not be reached, as against what it said.
    var isAboutConnection: Bool {
        switch code {
        case .offline, .timedOut, .signedOut, .tooManyRequests: true
        default: false
        }
    }
}
