/// Counts the changes made and remembers which count is on disk.
struct ChangeCount {
    private(set) var count = 0
    /// Nil if undoing can no longer reach the saved state.
    private var saved: Int? = 0

    var isUnsaved: Bool { saved != count }

    mutating func note(_ change: Document.ChangeKind) {
        switch change {
        case .done:
            // A new change discards the undone changes, and the saved state with them.
            if let saved, count < saved { self.saved = nil }
            count += 1
        case .redone: count += 1
        case .undone: count -= 1
        case .cleared: saved = count
        }
    }

    /// The saved state no longer exists on disk.
    mutating func noteLost() { saved = nil }

    mutating func noteSaved(_ count: Int) { saved = count }
}
