internal import UbiquitySystem

/// The events of a simulated world: a hash over all of them, to compare two runs, and the first and last lines.
package final class Trace: Sendable {
    /// Lines kept for a failure's report, from the beginning and at least as many from the end.
    private static let capacity = 2000

    private struct State {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        var lines: [String] = []
        var isEnded = false
    }

    private let state = Lock(State())

    package var hash: UInt64 { state.withLock { $0.hash } }

    /// The kept lines, oldest first.
    package var text: String { state.withLock { $0.lines.joined(separator: "\n") } }

    /// Later events do not belong to the run.
    func end() { state.withLock { $0.isEnded = true } }

    func mix(_ name: String, _ number: UInt64, _ time: Duration) {
        let (seconds, attoseconds) = time.components
        state.withLock { state in
            guard !state.isEnded else { return }
            for byte in name.utf8 { Self.mix(UInt64(byte), &state.hash) }
            for value in [number, UInt64(bitPattern: seconds), UInt64(bitPattern: attoseconds)] {
                Self.mix(value, &state.hash)
            }
        }
    }

    /// - Parameter isHashed: false for a line that may differ between two runs of a seed.
    func note(_ line: String, isHashed: Bool = true) {
        state.withLock { state in
            guard !state.isEnded else { return }
            if isHashed { for byte in line.utf8 { Self.mix(UInt64(byte), &state.hash) } }
            if state.lines.count >= 3 * Self.capacity {
                state.lines.replaceSubrange(Self.capacity..<2 * Self.capacity, with: CollectionOfOne("…"))
            }
            state.lines.append(line)
        }
    }

    /// FNV-1a, a word at a time.
    private static func mix(_ value: UInt64, _ hash: inout UInt64) { hash = (hash ^ value) &* 0x100_0000_01B3 }
}
