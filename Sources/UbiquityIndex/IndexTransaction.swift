import GRDB
package import UbiquityCore
internal import UbiquitySystem

/// One transaction on the index. Valid only inside the call that gave it.
package final class IndexTransaction: IndexReader {
    let index: ItemIndex
    let origin: IndexEvent.Origin
    private(set) var touched: Set<ItemKey> = []
    /// Of these, the rows as they are now.
    private(set) var written: [ItemKey: ItemRow] = [:]
    private(set) var names = NameChanges()
    /// Whether nothing that is remembered may be kept.
    private(set) var forgetsAll = false
    private(set) var events: [IndexEvent] = []
    /// For the totals of the folders.
    private(set) var folderChanges = FolderChanges()

    /// What it changed, in order, if that is kept for the journal.
    private(set) var statements: [JournalStatement] = []
    /// The journal they are for; nil if each is run at once, and none is kept.
    private let journal: IndexJournal?
    /// How many of them the database has run. The others it runs when it is asked something, or later.
    private(set) var runCount = 0
    /// Whether the database must have it at once.
    private(set) var isUrgent = false
    /// That it says no more than that a file which was known to be written was written to.
    private var isWritingOn = false

    /// Whether `fsync` must have brought it to the disk. Of what is not a program's own: if it has left something to be
    /// sent (a file that was restored), or a file that is being written on another version.
    var isChange: Bool {
        guard origin == .local else { return written.values.contains { !$0.dirty.isEmpty || $0.isWriting } }
        return !isWritingOn || statements.count > 1
    }

    init(_ connection: Database, index: ItemIndex, origin: IndexEvent.Origin, journal: IndexJournal?) {
        self.index = index
        self.origin = origin
        self.journal = journal
        super.init(connection)
        // As many as a rename has.
        events.reserveCapacity(4)
        if journal != nil { statements.reserveCapacity(8) }
    }

    /// A number for a key, an inode or a content that was never used.
    package func newNumber() -> Int64 { index.numbers.withLock { $0.take() } }

    package func newItemID() -> ItemID {
        var generator = SourcedGenerator(index.random)
        return ItemID(using: &generator)
    }

    /// The next place in the order of changes: greater than any before it, so that who reads on from the last one he
    /// saw misses nothing.
    package func newDirtyOrder() throws -> Int64 { newNumber() }

    package func note(
        _ kind: IndexEvent.Kind, before: ItemRow?, after: ItemRow?, versions: IndexEvent.VersionsChange? = nil
    ) {
        events.append(
            IndexEvent(origin: origin, kind: kind, before: before, after: after, versionsChange: versions))
    }

    /// Another inode stands at all names of an item: `note` tells of its entry, this of its hard links.
    package func noteOtherNames(of row: ItemRow) throws {
        guard row.isLinked else { return }
        for link in try links(to: row.id) { note(.replaced, before: link, after: link) }
    }

    // MARK: Rows

    // The cache has what was committed, and nobody else commits meanwhile.
    package override func row(key: ItemKey) throws -> ItemRow? {
        if touched.contains(key) { return try written[key] ?? super.row(key: key) }
        if !forgetsAll, let row = index.cache.row(key: key) { return row }
        return try super.row(key: key)
    }

    package override func row(ino: UInt64) throws -> ItemRow? {
        guard !forgetsAll, let row = index.cache.row(ino: ino) else { return try super.row(ino: ino) }
        guard touched.contains(row.key) else { return row }
        if let written = written[row.key], written.ino == ino { return written }
        return try super.row(ino: ino)
    }

    package override func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        let entry = ItemRow.Entry(parent: parent, name: name)
        if let changed = names.items[entry] { return try changed.flatMap { try row(key: $0) } }
        switch forgetsAll ? .unknown : index.cache.child(at: entry) {
        case .row(let row): return touched.contains(row.key) ? try self.row(key: row.key) : row
        case .nobody: return nil
        case .unknown: return try super.child(of: parent, named: name)
        }
    }

    /// Something was changed otherwise than row by row: of what is remembered, and of what this has done before, nobody
    /// knows whether it is still so. It is forgotten with the commit, and not asked till then.
    /// - Parameter recounts: Whether the totals of the folders may be others.
    func forgetRemembered(recounts: Bool = true) {
        forgetsAll = true
        if recounts { recountFolders() }
        written = [:]
        names = NameChanges()
    }

    /// Adds a row (its key must be new) and its entry.
    package func insert(_ row: ItemRow) throws {
        try execute(RowCoding.insert, RowCoding.values(row))
        noteWritten(row)
        folderChanges.note(row.key, before: nil, after: row)
        // The top folder is made anew where it was lost, and what was in it is there.
        if row.kind == .directory, row.key != .root { names.noteNewFolder(row.key) }
        if let entry = row.entry { try link(entry, to: row) }
    }

    /// Writes a row's columns where they differ from `before`, and moves its entry if that does.
    package func update(_ row: ItemRow, before: ItemRow) throws {
        let mask = RowCoding.difference(row, before)
        if mask != 0 {
            try execute(index.updateStatement(mask), RowCoding.values(row, mask))
        }
        noteWritten(row, before: before)
        folderChanges.note(row.key, before: before, after: row, isWhole: written[row.key] != nil) {
            index.cache.row(key: row.key)
        }
        noteTrust(before, after: row)
        guard row.entry != before.entry else { return }
        if let entry = before.entry { try unlink(entry) }
        if let entry = row.entry { try link(entry, to: row) }
    }

    /// Removes a row and its entry.
    package func delete(_ row: ItemRow) throws {
        try execute(RowCoding.delete, [SQLValue(row.key)])
        folderChanges.note(row.key, before: row, after: nil) { index.cache.row(key: row.key) }
        touched.insert(row.key)
        written[row.key] = nil
        noteTrust(row, after: nil)
        if let entry = row.entry { try unlink(entry) }
        guard row.isDeleted else { return }
        try forgetRestorations(of: row.id)
        index.tunnels.noteForgetting(row.key, version: row.version)
    }

    /// Of a row that is changed on what was read before another change of it only the columns that differ are written:
    /// nobody knows it as a whole then, and it is not remembered.
    private func noteWritten(_ row: ItemRow, before: ItemRow? = nil) {
        let isFirst = touched.insert(row.key).inserted
        written[row.key] = isFirst || before == nil || written[row.key] == before ? row : nil
    }

    private func link(_ entry: ItemRow.Entry, to row: ItemRow) throws {
        try execute(
            RowCoding.insertEntry,
            [SQLValue(entry.parent), SQLValue(entry.name), SQLValue(row.key), row.kind == .directory ? 1 : 0])
        names.give(entry, to: row.key)
    }

    package func unlink(_ entry: ItemRow.Entry) throws {
        try execute(RowCoding.deleteEntry, [SQLValue(entry.parent), SQLValue(entry.name)])
        names.give(entry, to: nil)
    }

    /// Notes that the cloud's record of an item is another one.
    func noteRecord(of id: ItemID, before: RecordState?, after: RecordState?) {
        folderChanges.note(id, before: before, after: after)
    }

    /// Has the totals of all folders counted again.
    func recountFolders() { folderChanges.isIncomplete = true }

    // Its own changes are in the stored totals only when they are committed.
    override var isAheadOfSums: Bool { true }

    // MARK: Statements

    /// The one way in which a transaction changes something.
    func execute(_ sql: String, _ values: [SQLValue]) throws {
        if journal == nil {
            try connection.run(sql, values)
        } else {
            statements.append(JournalStatement(sql: sql, values: values))
        }
    }

    /// The same for what is asked of the database in nearly each transaction: what the cloud has told, and of which
    /// contents something is known. Programs change that rarely.
    func executeAtOnce(_ sql: String, _ values: [SQLValue]) throws {
        isUrgent = true
        try execute(sql, values)
    }

    /// The database, which has all that was changed before.
    override var db: Database {
        get throws {
            try runAll()
            return connection
        }
    }

    override var currentPart: Database {
        get throws {
            if !connection.isInsideTransaction { journal?.noteOpening() }
            return try isUrgent || journal?.lacksUrgent ?? false ? db : connection
        }
    }

    /// Has the database run what was changed before it, and what it has changed itself.
    func runAll() throws {
        guard let journal else { return }
        try index.openBatch(connection, journal)
        while runCount < statements.count {
            try connection.run(statements[runCount].sql, statements[runCount].values)
            runCount += 1
        }
    }

    /// Takes note that this does no more to the row than to say that it was written to.
    func noteWritingOn(_ row: ItemRow) {
        isWritingOn = row.isWriting && !row.flags.contains(.fresh) && row.nextVersion == nil
            && row.dirty.isSuperset(of: [.content, .times])
    }

    /// Gives the top folder the times of what has come, gone or moved in it by another's doing. Any other folder's come
    /// with its record, and programs that look at times for what is new look at this one too. It is told of with that.
    func touchTopFolder() throws {
        guard origin == .remote, events.contains(where: \.changesTopFolder), let before = try row(key: .root) else {
            return
        }
        var top = before
        top.changedAt = index.timekeeper.now()
        top.modifiedAt = top.changedAt
        try update(top, before: before)
    }

    /// The top folder, in a new index.
    func makeRoot() throws {
        guard try row(key: .root) == nil else { return }
        let now = index.timekeeper.now()
        try insert(
            ItemRow(
                key: .root, ino: 1, id: .root, kind: .directory, mode: 0o755, uid: index.owner.uid,
                gid: index.owner.gid, size: 0,
                createdAt: now, modifiedAt: now, changedAt: now, linkTarget: [], xattrs: [], localXattrs: [],
                entry: nil, version: nil,
                content: nil, contentState: .none, flags: [], dirty: [], dirtyOrder: 0, dirtyBase: .zero, dirtyAt: now,
                generation: 0, nextVersion: nil, usedAt: now))
    }
}
