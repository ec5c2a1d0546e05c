internal import UbiquityCore

/// Places the members of a state.
struct PackagePlacing {
    let transaction: IndexTransaction
    let contents: [[ItemName]: ContentID]
    let source: ItemRow
    let now: Timestamp
    var folders: [[ItemName]: ItemKey] = [:]
    var dropped: [ContentID] = []
    /// A file whose content is uploaded together with all others of the package.
    var lastChanged: ItemKey?

    init(_ transaction: IndexTransaction, contents: [[ItemName]: ContentID], like source: ItemRow) {
        self.transaction = transaction
        self.contents = contents
        self.source = source
        now = transaction.index.timekeeper.now()
    }

    /// Restores a stored state of a package, in place or as a new package.
    ///
    /// - Returns: Contents no longer needed.
    static func place(
        _ tree: PackageTree, contents: [[ItemName]: ContentID], _ version: RemoteVersion, of key: ItemKey,
        at place: VersionPlace?, in transaction: IndexTransaction
    ) throws -> [ContentID] {
        guard let source = try transaction.row(key: key), !source.isDeleted, source.kind == .directory else {
            throw UbiquityError(.notFound, "the package is gone")
        }
        var placing = PackagePlacing(transaction, contents: contents, like: source)
        let top: ItemRow
        if let place {
            let folder = try transaction.tree.liveDirectory(ino: place.parent)
            guard try transaction.child(of: folder.key, named: place.name) == nil else {
                throw UbiquityError(.alreadyExists, "an item with this name exists already", at: "\(place.name)")
            }
            top = try placing.makeFolder(in: folder, place.name)
        } else {
            try placing.requireUploaded(source)
            // Restores the package where it is now: another folder may have its old name since the request.
            top = source
        }
        try placing.clear(top, for: tree)
        for member in tree.members { try placing.put(member) }
        if version.kind == .conflict {
            try transaction.versions.decide(.resolve, version.id, of: source.id, after: placing.lastChanged)
        }
        return placing.dropped
    }

    func requireUploaded(_ package: ItemRow) throws {
        let members = try transaction.reader.items.members(of: package.key, limit: .max)
        let isUp = members.allSatisfy { row in
            row.isExcluded || !row.isWriting && row.dirty.isDisjoint(with: [.content, .created])
        }
        guard isUp else {
            throw UbiquityError(
                .busy, "its last changes are not uploaded yet and would be lost",
                at: package.entry?.name.description ?? "", remedy: "run 'ubiquity wait --uploaded' first")
        }
    }

    /// Creates a separate package with the same attributes, so that it is a package for the same reason.
    mutating func makeFolder(in parent: ItemRow, _ name: ItemName) throws -> ItemRow {
        let made = try transaction.tree.create(
            in: parent, named: name,
            NewItem(kind: .directory, mode: source.mode, uid: source.uid, gid: source.gid))
        var row = made
        row.xattrs = source.xattrs
        try transaction.update(row, before: made)
        return row
    }

    /// Removes members that are not in the state, innermost first. Excluded items stay.
    mutating func clear(_ top: ItemRow, for tree: PackageTree) throws {
        let wanted = Dictionary(tree.members.map { ($0.path, $0.kind) }) { first, _ in first }
        var paths: [ItemKey: [ItemName]] = [top.key: []]
        let rows = try transaction.reader.items.members(of: top.key, limit: .max).dropFirst()
        for row in rows {
            guard let entry = row.entry, let above = paths[entry.parent] else { continue }
            paths[row.key] = above + [entry.name]
        }
        folders[[]] = top.key
        for row in rows.reversed() {
            guard let path = paths[row.key], !row.isExcluded, wanted[path] != row.kind else { continue }
            if row.kind == .directory, try transaction.reader.items.hasChildren(row.key) { continue }
            if row.isWriting { throw UbiquityError(.busy, "a program is writing a file in the package") }
            guard let current = try transaction.row(key: row.key) else { continue }
            if try !transaction.hardLinks.moveToOtherName(current, now: now) {
                try transaction.tree.remove(current, now: now)
                if let content = current.content { dropped.append(content) }
            }
        }
    }

    mutating func put(_ member: PackageMember) throws {
        guard let name = member.path.last, let above = folders[Array(member.path.dropLast())],
            let parent = try transaction.row(key: above)
        else { throw UbiquityError(.damaged, "the package's stored state lacks a folder") }
        let known = try transaction.child(of: above, named: name)
        if let known, known.kind != member.kind {
            throw UbiquityError(.alreadyExists, "an item that is excluded from sync has this name", at: "\(name)")
        }
        switch member.kind {
        case .directory:
            let folder = try known ?? make(member, in: parent, name, nil)
            folders[member.path] = folder.key
            try adopt(member, in: folder)
        case .symlink:
            if let known {
                guard known.linkTarget != member.linkTarget else { return }
                try transaction.tree.remove(known, now: now)
            }
            try adopt(member, in: make(member, in: parent, name, nil))
        default: try putFile(member, in: parent, name, known)
        }
    }

    private mutating func putFile(
        _ member: PackageMember, in parent: ItemRow, _ name: ItemName, _ known: ItemRow?
    ) throws {
        guard let content = contents[member.path] else { throw UbiquityError(.damaged, "a file's content is missing") }
        var row: ItemRow
        if let known {
            if known.version == member.version, !known.dirty.contains(.content) {
                dropped.append(content)
                return try adopt(member, in: known)
            }
            if known.isWriting { throw UbiquityError(.busy, "a program is writing a file in the package") }
            if let old = known.content { dropped.append(old) }
            row = known
        } else {
            row = try make(member, in: parent, name, content)
        }
        let ino = UInt64(transaction.newNumber())
        row = try transaction.placing.putContent(content, size: member.size, ino: ino, in: row)
        lastChanged = row.key
        try adopt(member, in: row)
    }

    /// Gives the item the permissions and attributes of the state.
    private func adopt(_ member: PackageMember, in before: ItemRow) throws {
        let mode = Privileges.arriving(member.mode, over: before.mode)
        guard before.mode != mode || before.xattrs != member.xattrs else { return }
        var row = before
        row.mode = mode
        row.xattrs = member.xattrs
        row.changedAt = now
        if row.mode != before.mode { try transaction.tree.markDirty(&row, .mode, now: now) }
        try transaction.tree.markXattrs(&row, from: before.xattrs, now: now)
        try transaction.update(row, before: before)
        transaction.note(.attributes, before: before, after: row)
    }

    private func make(
        _ member: PackageMember, in parent: ItemRow, _ name: ItemName, _ content: ContentID?
    ) throws -> ItemRow {
        try transaction.tree.create(
            in: parent, named: name,
            NewItem(
                kind: member.kind, mode: Privileges.arriving(member.mode), uid: source.uid, gid: source.gid,
                linkTarget: member.linkTarget, content: content))
    }
}
