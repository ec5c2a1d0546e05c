internal import UbiquityCore

/// Detects programs that look up a folder's names in order, as a walk over a known tree does (`git status`, a
/// comparison with a list). The following names are then read ahead, at a third of the cost of single reads.
///
/// The detection is a guess, and a wrong guess costs one read. So the more often it was wrong in a folder, the more
/// rarely it is made.
struct NamesInOrder {
    /// Maximum number of folders tracked.
    static let capacity = 64
    /// Names read ahead, at first and at most.
    static let firstSpan = 4, maximumSpan = 64
    /// Maximum lookups before the next guess.
    static let maximumRest = 63

    private struct Folder {
        /// The last name that was read.
        var last: ItemName
        var span = NamesInOrder.firstSpan
        /// How many lookups pass before the next guess, and how many of them remain.
        var rest = 0
        var restLeft = 0
    }

    private var folders: [ItemKey: Folder] = [:]

    /// Returns what to read for a lookup: up to `limit` names after another one, of which it may be the first. Nil if
    /// there is no guess.
    mutating func guess(_ entry: ItemRow.Entry) -> (after: ItemName, limit: Int)? {
        guard let folder = folders[entry.parent], folder.last < entry.name else { return nil }
        guard folder.restLeft == 0 else {
            folders[entry.parent]?.restLeft -= 1
            return nil
        }
        return (folder.last, folder.span)
    }

    /// Records a right guess; `last` is the last name that was read.
    mutating func confirm(_ parent: ItemKey, last: ItemName) {
        let span = min((folders[parent]?.span ?? 0) * 4, Self.maximumSpan)
        note(parent, Folder(last: last, span: max(span, Self.firstSpan)))
    }

    /// Records a wrong guess.
    mutating func refute(_ parent: ItemKey) {
        guard var folder = folders[parent] else { return }
        folder.span = Self.firstSpan
        folder.rest = min(folder.rest * 2 + 1, Self.maximumRest)
        folder.restLeft = folder.rest
        folders[parent] = folder
    }

    /// Records a name that was read alone.
    mutating func note(_ entry: ItemRow.Entry) {
        if folders[entry.parent] != nil { folders[entry.parent]?.last = entry.name } else {
            note(entry.parent, Folder(last: entry.name))
        }
    }

    private mutating func note(_ parent: ItemKey, _ folder: Folder) {
        if folders.count >= Self.capacity, folders[parent] == nil { folders.removeAll(keepingCapacity: true) }
        folders[parent] = folder
    }
}
