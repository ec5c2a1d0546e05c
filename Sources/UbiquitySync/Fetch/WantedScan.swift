internal import UbiquityCore
internal import UbiquityIndex

/// The download loop's position in its scan of wanted placeholders. It scans in rounds, so that each look reads a few
/// rows and not all of them.
struct WantedScan: Sendable {
    /// Items found but not begun, the next one last.
    private var found: [ItemKey] = []
    /// The last item examined.
    private(set) var position = ItemKey(0)

    /// Whether a round begins: nothing is found, and the first items are next.
    var isAtBeginning: Bool { found.isEmpty && position == ItemKey(0) }

    mutating func next() -> ItemKey? { found.popLast() }

    /// Adds the rows that follow `position`. An empty list ends the round.
    mutating func add(_ rows: [ItemRow]) {
        found = rows.reversed().map(\.key)
        position = rows.last?.key ?? ItemKey(0)
    }
}
