internal import UbiquityCore

/// Where programs ask for the names of a folder in their order, as a walk over a known tree does (`git status`, a
/// comparison with a list): then those that follow are read along, at a third of what they cost one by one.
///
/// Whether it is so is a guess, which costs a read when it is wrong. So it is made the more rarely the more often it
/// was wrong in the folder.
struct NamesInOrder {
    /// Folders of which something is known.
    static let capacity = 64
    /// Names that are read at one time, at first and at most.
    static let firstSpan = 4, maximumSpan = 64
    /// So many names are asked for at most before the next guess.
    static let maximumRest = 63

    private struct Folder {
        /// The last that was read.
        var last: ItemName
        var span = NamesInOrder.firstSpan
        /// How many names are asked for before the next guess, and how many are left of them.
        var rest = 0
        var restLeft = 0
    }

    private var folders: [ItemKey: Folder] = [:]

    /// What to read for a name that is asked for: up to `limit` names after another one, of which it may be the first.
    /// Nil if there is nothing to guess.
    mutating func guess(_ entry: ItemRow.Entry) -> (after: ItemName, limit: Int)? {
        guard let folder = folders[entry.parent], folder.last < entry.name else { return nil }
        guard folder.restLeft == 0 else {
            folders[entry.parent]?.restLeft -= 1
            return nil
        }
        return (folder.last, folder.span)
    }

    /// The guess was right; `last` is the last name that was read.
    mutating func confirm(_ parent: ItemKey, last: ItemName) {
        let span = min((folders[parent]?.span ?? 0) * 4, Self.maximumSpan)
        note(parent, Folder(last: last, span: max(span, Self.firstSpan)))
    }

    /// It was wrong.
    mutating func refute(_ parent: ItemKey) {
        guard var folder = folders[parent] else { return }
        folder.span = Self.firstSpan
        folder.rest = min(folder.rest * 2 + 1, Self.maximumRest)
        folder.restLeft = folder.rest
        folders[parent] = folder
    }

    /// A name was read by itself.
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
