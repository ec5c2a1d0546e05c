internal import UbiquityCore
internal import UbiquitySystem

/// An entry as readdir gives it.
package struct DirectoryItem: Sendable {
    package var name: [UInt8]
    /// The offset at which reading continues after this entry.
    package var offset: Int64
    package var attributes: NodeAttributes
    /// Whether, returned with attributes, it counts as a lookup (all but "." and "..", and versions).
    package var isCounted: Bool
}

/// The position in a directory at which reading continues.
///
/// The kernel opens and closes directories without asking this process, and reads most listings from its own cache. So
/// an offset must mean the same to every reader at any time: it is the inode number of the last entry returned. Reading
/// continues after the name that this entry has, or had when it left (`Departures`). So each entry that stays is
/// returned once, whatever is created or removed meanwhile.
enum DirectoryOffset {
    /// Offsets after "." and "..".
    static let afterDot: Int64 = 1
    static let afterDotDot: Int64 = 2
    static func after(_ ino: UInt64) -> Int64 { Int64(ino) + afterDotDot }
    /// After an entry of `VisibleConflicts`: an offset in a `VersionsListing` with this bit. No inode number has it.
    private static let conflictBit: Int64 = 1 << 62
    static func ofConflict(_ offset: Int64) -> Int64 { offset | conflictBit }
    static func isOfConflict(_ offset: Int64) -> Bool { offset & conflictBit != 0 }
    static func ofListing(_ offset: Int64) -> Int64 { offset & ~conflictBit }
    static func inode(before offset: Int64) -> UInt64 { UInt64(offset - afterDotDot) }
}

/// Entries that recently left directories. A program that removes the entries it has listed continues reading after the
/// last of them.
///
/// Lock order: a leaf.
final class Departures: Sendable {
    private struct State {
        var names: [UInt64: [UInt64: ItemName]] = [:]
        /// In order of departure; may still contain forgotten entries.
        var order: [(directory: UInt64, ino: UInt64)] = []
        /// How many at the beginning of `order` have been processed.
        var done = 0
        var hasForgotten = false
    }

    /// Entries remembered, of all directories together.
    static let capacity = 16_384

    private let state = Lock(State())
    private let capacity: Int

    init(capacity: Int = Departures.capacity) { self.capacity = capacity }

    /// Whether entries were forgotten because of the limit.
    var hasForgotten: Bool { state.withLock { $0.hasForgotten } }

    func add(_ name: ItemName, of ino: UInt64, from directory: UInt64) {
        state.withLock { state in
            state.names[directory, default: [:]][ino] = name
            state.order.append((directory, ino))
            guard state.order.count - state.done > capacity else { return }
            let oldest = state.order[state.done]
            state.done += 1
            if Self.forget(oldest.ino, from: oldest.directory, &state) { state.hasForgotten = true }
            // Rare: each entry moves once for each added one.
            if state.done > capacity {
                state.order.removeFirst(state.done)
                state.done = 0
            }
        }
    }

    func name(of ino: UInt64, from directory: UInt64) -> ItemName? { state.withLock { $0.names[directory]?[ino] } }

    /// Forgets entries that are in the directory again; listings return them at their present names.
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
