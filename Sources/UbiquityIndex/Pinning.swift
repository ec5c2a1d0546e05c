internal import UbiquityCore

// A folder that is kept here keeps here what comes into it later: what is made in it, moved into it, or comes from
// another device. What leaves it stays pinned, as does what is in a folder that is unpinned alone.
extension IndexTransaction {
    /// The row is about to be in the folder of its entry.
    package func inheritPin(_ row: inout ItemRow) throws {
        // A link that is pinned already may lead to a file that was unpinned by another name.
        guard !row.isPinned || row.kind == .hardLink, !row.isExcluded, let parent = row.entry?.parent,
            try self.row(key: parent)?.isPinned == true
        else { return }
        row.flags.insert(.pinned)
        try pinLinked(by: row)
    }

    /// A file is kept here by each folder that it has a name in.
    private func pinLinked(by link: ItemRow) throws {
        guard link.kind == .hardLink, let file = try named(link), !file.isPinned, !file.isExcluded else { return }
        var next = file
        next.flags.insert(.pinned)
        try update(next, before: file)
        note(.attributes, before: file, after: next)
    }

    /// All that is in a folder that has just been pinned by where it has come to.
    package func passPin(of row: ItemRow, before: ItemRow) throws {
        guard row.kind == .directory, row.isPinned, !before.isPinned else { return }
        var folders = [row.key]
        while let folder = folders.popLast() {
            for child in try children(of: folder, after: nil, limit: .max) where !child.isExcluded {
                if child.kind == .directory { folders.append(child.key) }
                guard !child.isPinned else {
                    try pinLinked(by: child)
                    continue
                }
                var next = child
                next.flags.insert(.pinned)
                try update(next, before: child)
                note(.attributes, before: child, after: next)
                try pinLinked(by: next)
            }
        }
    }
}
