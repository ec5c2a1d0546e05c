internal import UbiquityCore
internal import UbiquitySystem

/// The files whose sync a program has paused. Their contents and attributes are neither sent nor replaced; names, moves
/// and deletions travel.
///
/// The list is a file of the state folder, a key a line, so a pause lasts beyond the program and a restart.
final class PausedItems: Sendable {
    /// Files paused at one time.
    static let maximumItems = 10_000
    /// Bytes of the list.
    private static let maximumLength = 1 << 20

    private let path: String?
    private let items: Lock<Set<ItemKey>>

    /// - Parameter path: nil pauses for the lifetime of the process.
    init(path: String?) {
        self.path = path
        // An unreadable list pauses nothing: nothing is lost by that.
        let bytes = path.flatMap { try? SmallFile.read($0, limit: Self.maximumLength) } ?? []
        let keys = String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { Int64($0) }
        items = Lock(Set(keys.map { ItemKey($0) }))
    }

    func contains(_ key: ItemKey) -> Bool { items.withLock { $0.contains(key) } }

    /// Returns whether that was a change.
    func set(_ key: ItemKey, _ isPaused: Bool) throws(UbiquityError) -> Bool {
        let changed = items.withLock { items -> Set<ItemKey>? in
            if isPaused, items.count < Self.maximumItems, items.insert(key).inserted { return items }
            if !isPaused, items.remove(key) != nil { return items }
            return nil
        }
        guard let changed else {
            guard !isPaused || contains(key) else {
                throw UbiquityError(
                    .tooManyRequests, "the sync of \(Self.maximumItems) files is paused, the maximum",
                    remedy: "resume some")
            }
            return false
        }
        guard let path else { return true }
        let text = changed.sorted().map { "\($0)\n" }.joined()
        try SmallFile.publish(Array(text.utf8), at: path)
        return true
    }
}
