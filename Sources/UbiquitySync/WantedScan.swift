internal import UbiquityCore
internal import UbiquityIndex

/// How far the download loop has come on its way through the placeholders that should be here. It goes through them in
/// rounds, so that with many of them each look costs a few rows and not all of them again.
struct WantedScan: Sendable {
    /// Found and not begun, the next one last.
    private var found: [ItemKey] = []
    /// The last item looked at.
    private(set) var position = ItemKey(0)

    /// Whether a round begins: nothing is found, and the first items are next.
    var isAtBeginning: Bool { found.isEmpty && position == ItemKey(0) }

    mutating func next() -> ItemKey? { found.popLast() }

    /// The rows that follow `position`; none ends the round.
    mutating func add(_ rows: [ItemRow]) {
        found = rows.reversed().map(\.key)
        position = rows.last?.key ?? ItemKey(0)
    }
}
