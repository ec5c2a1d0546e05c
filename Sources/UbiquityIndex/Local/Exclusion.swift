package import UbiquityCore

/// Which items never leave this device: those that a name, a folder above or an ignore file excludes.
///
/// The rules apply when an item is created, and never delete: a synced item stays synced under any name and any later
/// rule. An excluded item is uploaded as soon as no rule excludes it any more.
package struct Exclusion: TransactionPart {
    let transaction: IndexTransaction

    /// Returns whether items of that name are excluded in every folder, whatever ignore files say.
    package func isLocalEverywhere(_ name: ItemName, _ kind: ItemKind) -> Bool {
        kind.isSpecial || name.isAlwaysLocal
            || index.ignoreFiles.standard.decision(on: [name], isDirectory: kind == .directory) == true
    }

    /// Returns a free name similar to this one that is excluded as well.
    package func freeLocalName(near name: ItemName, _ kind: ItemKind, in folder: ItemRow) throws -> ItemName {
        let forms = [{ name.numbered($0) }, { name.numberedBeforeItsEnd($0) }] as [(Int) -> ItemName]
        let form = try forms.first { try keepsLocal($0(2), kind, in: folder) } ?? { name.numberedLocal($0) }
        var number = 2
        while try transaction.child(of: folder.key, named: form(number)) != nil { number += 1 }
        return form(number)
    }

    /// Returns whether an item created at that place now would be excluded.
    func keepsLocal(_ name: ItemName, _ kind: ItemKind, in folder: ItemRow) throws -> Bool {
        try folder.isExcluded || isIgnored(name, kind, in: folder)
    }

    func isIgnored(_ name: ItemName, _ kind: ItemKind, in folder: ItemRow) throws -> Bool {
        if kind.isSpecial || name.isAlwaysLocal { return true }
        guard name != IgnoreRules.fileName else { return false }
        let files = index.ignoreFiles, standard = files.standard
        if !files.isEmpty || standard.needsPath, let above = try items.path(of: folder.key) {
            var levels = try self.levels(from: folder)
            if standard.needsPath { levels.insert((0, standard), at: 0) }
            let decision = IgnoreRules.decision(on: above + [name], isDirectory: kind == .directory, by: levels)
            if let decision { return decision }
        }
        return standard.decision(on: [name], isDirectory: kind == .directory) ?? false
    }

    /// Returns the ignore files of the folder and those above it, the top folder's first.
    private func levels(from folder: ItemRow) throws -> [(depth: Int, rules: IgnoreRules)] {
        var found = [IgnoreRules?]()
        var key = folder.key
        while true {
            found.append(index.ignoreFiles[key])
            guard key != .root, let entry = try transaction.row(key: key)?.entry else { break }
            key = entry.parent
        }
        return found.reversed().enumerated().compactMap { depth, rules in rules.map { (depth, $0) } }
    }

    func setIgnoreText(_ text: [UInt8]?, of folder: ItemKey) throws {
        let name = SQLValue.text(MetaTable.ignorePrefix + "\(folder)")
        guard let text else { return try execute("DELETE FROM meta WHERE name = ?", [name]) }
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", [name, .bytes(text)])
    }

    func noteStandardRules() throws {
        let text = index.ignoreFiles.standard.text
        let sql = "SELECT value FROM meta WHERE name = 'standardRules'"
        let known = try reader.db.first(sql, []) { $0.bytes(0) } ?? nil
        guard known != text else { return }
        try execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('standardRules', ?)", [.bytes(text)])
        if known != nil { try includeWhatIsNoLongerIgnored() }
    }

    /// Includes all excluded items that no rule excludes any more.
    func includeWhatIsNoLongerIgnored() throws {
        let now = index.timekeeper.now()
        for local in try reader.rows(RowCoding.select("items.flags & \(ItemFlags.excluded.rawValue)"), []) {
            try includeIfNoLongerIgnored(local, now: now)
        }
    }

    /// Includes an item; a folder with its members.
    private func includeIfNoLongerIgnored(_ local: ItemRow, now: Timestamp) throws {
        guard let current = try transaction.row(key: local.key), current.isExcluded, let entry = current.entry,
            let folder = try transaction.row(key: entry.parent), !folder.isExcluded,
            try !isIgnored(entry.name, current.kind, in: folder), try !isNameOfLocal(current)
        else { return }
        let included = try takeUp(current, now: now)
        try includeChildren(of: included, now: now)
        try hardLinks.includeLinks(of: included, now: now)
    }

    /// Returns whether the item is a hard link to an excluded item.
    private func isNameOfLocal(_ row: ItemRow) throws -> Bool {
        guard row.kind == .hardLink else { return false }
        return try items.named(row)?.isExcluded ?? true
    }

    /// Marks an excluded item as synced from now on, so that it is uploaded.
    func include(_ row: inout ItemRow, now: Timestamp) throws {
        row.flags.remove(.excluded)
        try tree.markDirty(&row, row.kind == .file ? [.created, .content] : .created, now: now)
    }

    private func takeUp(_ local: ItemRow, now: Timestamp) throws -> ItemRow {
        var included = local
        try include(&included, now: now)
        try transaction.update(included, before: local)
        transaction.note(.attributes, before: local, after: included)
        return included
    }

    /// Includes items in a moved folder, at any depth, that were excluded by their old path and no rule excludes any
    /// more.
    package func includeAfterMove(_ folder: ItemRow, from before: ItemRow, now: Timestamp) throws {
        guard folder.kind == .directory, !folder.isExcluded, !index.ignoreFiles.isEmpty,
            try mayHaveBeenIgnored(in: before)
        else { return }
        for local in try localRows(below: folder.key) { try includeIfNoLongerIgnored(local, now: now) }
    }

    /// Returns the excluded items in a folder and in its synced subfolders. One statement, because there may be many.
    private func localRows(below folder: ItemKey) throws -> [ItemRow] {
        let excluded = ItemFlags.excluded.rawValue
        return try reader.rows(
            """
            WITH RECURSIVE down(key) AS (
                VALUES(?) UNION ALL
                SELECT items.key FROM down
                CROSS JOIN entries INDEXED BY entriesDirectory ON entries.parent = down.key AND entries.directory
                CROSS JOIN items ON items.key = entries.item AND items.flags & \(excluded) = 0)
            SELECT items.*, entries.parent, entries.name FROM down CROSS JOIN entries ON entries.parent = down.key
            CROSS JOIN items ON items.key = entries.item WHERE items.flags & \(excluded)
            """, [SQLValue(folder)])
    }

    /// Returns whether rules of the folders above applied to the folder. The folder's own rules moved with it.
    private func mayHaveBeenIgnored(in folder: ItemRow) throws -> Bool {
        guard let entry = folder.entry, let above = try transaction.row(key: entry.parent) else { return true }
        return try index.ignoreFiles.standard.needsPath || !levels(from: above).isEmpty
    }

    /// Includes the members of a folder that has just been included, except ignored ones.
    func includeChildren(of folder: ItemRow, now: Timestamp) throws {
        var folders = [folder]
        while let folder = folders.popLast() {
            guard folder.kind == .directory else { continue }
            for child in try items.children(of: folder.key, after: nil, limit: .max) where child.isExcluded {
                guard let name = child.entry?.name, try !isIgnored(name, child.kind, in: folder),
                    try !isNameOfLocal(child)
                else { continue }
                let included = try takeUp(child, now: now)
                try hardLinks.includeLinks(of: included, now: now)
                folders.append(included)
            }
        }
    }
}
