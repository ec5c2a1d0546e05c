internal import UbiquityCore

/// Passes pins on. Items created in a pinned folder, moved into it, or arriving from another device are pinned too.
/// Items that leave it stay pinned, and so do the members of a folder that is unpinned alone.
package struct PinInheritance: TransactionPart {
    let transaction: IndexTransaction

    /// Pins a row that is about to enter the folder of its entry, if that folder is pinned.
    package func inheritPin(_ row: inout ItemRow) throws {
        // A pinned link may lead to a file that was unpinned by another name.
        guard !row.isPinned || row.kind == .hardLink, !row.isExcluded, let parent = row.entry?.parent,
            try transaction.row(key: parent)?.isPinned == true
        else { return }
        row.flags.insert(.pinned)
        try pinLinked(by: row)
    }

    /// Pins a link's file: every pinned folder with a name of a file keeps it here.
    private func pinLinked(by link: ItemRow) throws {
        guard link.kind == .hardLink, let file = try items.named(link), !file.isPinned, !file.isExcluded else { return }
        var next = file
        next.flags.insert(.pinned)
        try transaction.update(next, before: file)
        transaction.note(.attributes, before: file, after: next)
    }

    /// Pins everything in a folder that its new place has just pinned.
    package func passPin(of row: ItemRow, before: ItemRow) throws {
        guard row.kind == .directory, row.isPinned, !before.isPinned else { return }
        var folders = [row.key]
        while let folder = folders.popLast() {
            for child in try items.children(of: folder, after: nil, limit: .max) where !child.isExcluded {
                if child.kind == .directory { folders.append(child.key) }
                guard !child.isPinned else {
                    try pinLinked(by: child)
                    continue
                }
                var next = child
                next.flags.insert(.pinned)
                try transaction.update(next, before: child)
                transaction.note(.attributes, before: child, after: next)
                try pinLinked(by: next)
            }
        }
    }
}
