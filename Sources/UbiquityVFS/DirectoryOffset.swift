internal import UbiquityCore
internal import UbiquitySystem

/// An entry as readdir gives it.
package struct DirectoryItem: Sendable {
    package var name: [UInt8]
    /// Where reading goes on after it.
    package var offset: Int64
    package var attributes: NodeAttributes
    /// Whether, given with attributes, it counts as a lookup (all but "." and "..", and versions).
    package var isCounted: Bool
}

/// Where in a directory reading goes on.
///
/// The kernel opens and closes directories without a word to this process, and reads most from its own cache. So an
/// offset must mean the same whoever reads and whenever: it is the inode number of the entry after which reading goes
/// on. It goes by names, after the one that this entry has, or had when it left (`Departures`): so whatever is made or
/// removed meanwhile, what stays is given once.
enum DirectoryOffset {
    /// Offsets after "." and "..".
    static let afterDot: Int64 = 1
    static let afterDotDot: Int64 = 2
    static func after(_ ino: UInt64) -> Int64 { Int64(ino) + afterDotDot }
    static func inode(before offset: Int64) -> UInt64 { UInt64(offset - afterDotDot) }
}

/// What has left directories lately: a program that removes what it has listed goes on reading after the last of it.
///
/// Lock order: a leaf.
final class Departures: Sendable {
    private struct State {
        var names: [UInt64: [UInt64: ItemName]] = [:]
        /// In the order in which they left; what was forgotten otherwise may still stand here.
        var order: [(directory: UInt64, ino: UInt64)] = []
        /// How many at the beginning of `order` are done with.
        var done = 0
        var hasForgotten = false
    }

    /// Entries that are remembered, of all directories together.
    static let capacity = 16_384

    private let state = Lock(State())
    private let capacity: Int

    init(capacity: Int = Departures.capacity) { self.capacity = capacity }

    /// Whether there were more than are remembered.
    var hasForgotten: Bool { state.withLock { $0.hasForgotten } }

    func note(_ name: ItemName, of ino: UInt64, from directory: UInt64) {
        state.withLock { state in
            state.names[directory, default: [:]][ino] = name
            state.order.append((directory, ino))
            guard state.order.count - state.done > capacity else { return }
            let oldest = state.order[state.done]
            state.done += 1
            if Self.forget(oldest.ino, from: oldest.directory, &state) { state.hasForgotten = true }
            // Seldom: each is moved once for each that came.
            if state.done > capacity {
                state.order.removeFirst(state.done)
                state.done = 0
            }
        }
    }

    func name(of ino: UInt64, from directory: UInt64) -> ItemName? { state.withLock { $0.names[directory]?[ino] } }

    /// They are in the directory again, and are given where they stand now.
    func forget(_ inodes: some Sequence<UInt64>, from directory: UInt64) {
        state.withLock { state in
            guard state.names[directory] != nil else { return }
            for ino in inodes { _ = Self.forget(ino, from: directory, &state) }
        }
    }

    private static func forget(_ ino: UInt64, from directory: UInt64, _ state: inout State) -> Bool {
        guard let place = state.names.index(forKey: directory) else { return false }
        let isKnown = state.names.values[place].removeValue(forKey: ino) != nil
        if state.names.values[place].isEmpty { state.names.remove(at: place) }
        return isKnown
    }
}
