internal import UbiquitySystem

/// Files that a call waits for with their inode locked in the kernel: a truncation, or a copy within the mount, that
/// waits for a download.
///
/// Lock order: a leaf.
final class WaitingCalls: Sendable {
    private let counts = Lock<[UInt64: Int]>([:])

    func contains(_ ino: UInt64) -> Bool { counts.withLock { $0[ino] != nil } }

    /// The same answer; while it is waited for, the file counts.
    func watching<Value>(_ answer: Answer<Value>, _ ino: UInt64) -> Answer<Value> {
        guard case .later(let work) = answer else { return answer }
        enter(ino)
        return .later { [self] in
            defer { leave(ino) }
            return try await work()
        }
    }

    private func enter(_ ino: UInt64) { counts.withLock { $0[ino, default: 0] += 1 } }

    private func leave(_ ino: UInt64) {
        counts.withLock { counts in
            let left = (counts[ino] ?? 1) - 1
            counts[ino] = left > 0 ? left : nil
        }
    }
}
