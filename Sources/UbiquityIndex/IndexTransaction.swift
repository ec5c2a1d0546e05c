import GRDB
package import UbiquityCore
internal import UbiquitySystem

/// One transaction on the index. Valid only inside the call that passed it.
package final class IndexTransaction: IndexReader {
    let index: ItemIndex
    let origin: IndexEvent.Origin
    private(set) var touched: Set<ItemKey> = []
    /// The touched rows as they are now.
    private(set) var written: [ItemKey: ItemRow] = [:]
    private(set) var names = NameChanges()
    /// Whether all remembered rows and names must be dropped.
    private(set) var forgetsAll = false
    private(set) var events: [IndexEvent] = []
    /// Changes for the totals of folders.
    private(set) var folderChanges = FolderChanges()

    /// The statements so far, in order, if they are kept for the journal.
    private(set) var statements: [JournalStatement] = []
    /// The journal of the statements; nil if each statement runs at once and is not kept.
    private let journal: IndexJournal?
    /// How many of the statements have run in the database. The others run before the next query, or later.
    private(set) var runCount = 0
    /// Whether the database must run the statements at once.
    private(set) var isUrgent = false
    /// Whether the transaction only records a further write to a file already marked as being written.
    private var isWritingOn = false

    /// Whether `fsync` must bring the transaction to disk. A transaction not made by a program counts if it left
    /// something to upload (a restored file), or gave a file being written another version.
    var isChange: Bool {
        guard origin == .local else { return written.values.contains { !$0.dirty.isEmpty || $0.isWriting } }
        return !isWritingOn || statements.count > 1
    }

    init(_ connection: Database, index: ItemIndex, origin: IndexEvent.Origin, journal: IndexJournal?) {
        self.index = index
        self.origin = origin
        self.journal = journal
        super.init(connection)
        // A rename has this many events.
        events.reserveCapacity(4)
        if journal != nil { statements.reserveCapacity(8) }
    }

    /// Returns a number for a key, an inode or a content; it was never used before.
    package func newNumber() -> Int64 { index.numbers.next() }

    package func newItemID() -> ItemID {
        var generator = SourcedGenerator(index.random)
        return ItemID(using: &generator)
    }

    /// Returns the next position in the order of changes. It is greater than all before it, so a reader that continues
    /// from its last position misses nothing.
    package func newDirtyOrder() throws -> Int64 { newNumber() }

    package func note(
        _ kind: IndexEvent.Kind, before: ItemRow?, after: ItemRow?, versions: IndexEvent.VersionsChange? = nil
    ) {
        events.append(
            IndexEvent(origin: origin, kind: kind, before: before, after: after, versionsChange: versions))
    }

    /// Records that all names of an item have another inode. `note` covers its entry, this its hard links.
    package func noteOtherNames(of row: ItemRow) throws {
        guard row.isLinked else { return }
        for link in try links(to: row.id) { note(.replaced, before: link, after: link) }
    }

    // MARK: Rows

    // The cache has the committed rows, and no other transaction commits meanwhile.
    package override func row(key: ItemKey) throws -> ItemRow? {
        if touched.contains(key) { return try written[key] ?? super.row(key: key) }
        if !forgetsAll, let row = index.cache.rows.row(key: key) { return row }
        return try super.row(key: key)
    }

    package override func row(ino: UInt64) throws -> ItemRow? {
        guard !forgetsAll, let row = index.cache.rows.row(ino: ino) else { return try super.row(ino: ino) }
        guard touched.contains(row.key) else { return row }
        if let written = written[row.key], written.ino == ino { return written }
        return try super.row(ino: ino)
    }

    package override func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        let entry = ItemRow.Entry(parent: parent, name: name)
        if let changed = names.items[entry] { return try changed.flatMap { try row(key: $0) } }
        switch forgetsAll ? .unknown : index.cache.rows.child(at: entry) {
        case .row(let row): return touched.contains(row.key) ? try self.row(key: row.key) : row
        case .nobody: return nil
        case .unknown: return try super.child(of: parent, named: name)
        }
    }

    /// Drops all remembered rows and names, because something changed other than row by row. Until the commit, queries
    /// go to the database.
    ///
    /// - Parameter recounts: Whether the totals of folders may have changed.
    func forgetRemembered(recounts: Bool = true) {
        forgetsAll = true
        if recounts { recountFolders() }
        written = [:]
        names = NameChanges()
    }

    /// Inserts a row (with a new key) and its entry.
    package func insert(_ row: ItemRow) throws {
        try execute(RowCoding.insert, RowCoding.values(row))
        noteWritten(row)
        folderChanges.note(row.key, before: nil, after: row)
        // A lost top folder is recreated with its members still in place.
        if row.kind == .directory, row.key != .root { names.noteNewFolder(row.key) }
        if let entry = row.entry { try link(entry, to: row) }
    }

    /// Writes the columns that differ from `before`, and moves the entry if it differs.
    package func update(_ row: ItemRow, before: ItemRow) throws {
        let mask = RowCoding.difference(row, before)
        if mask != 0 {
            try execute(index.cache.updateStatement(mask), RowCoding.values(row, mask))
        }
        noteWritten(row, before: before)
        folderChanges.note(row.key, before: before, after: row, isWhole: written[row.key] != nil) {
            index.cache.rows.row(key: row.key)
        }
        noteTrust(before, after: row)
        guard row.entry != before.entry else { return }
        if let entry = before.entry { try unlink(entry) }
        if let entry = row.entry { try link(entry, to: row) }
    }

    /// Deletes a row and its entry.
    package func delete(_ row: ItemRow) throws {
        try execute(RowCoding.delete, [SQLValue(row.key)])
        folderChanges.note(row.key, before: row, after: nil) { index.cache.rows.row(key: row.key) }
        touched.insert(row.key)
        written[row.key] = nil
        noteTrust(row, after: nil)
        if let entry = row.entry { try unlink(entry) }
        guard row.isDeleted else { return }
        try forgetRestorations(of: row.id)
        index.tunnels.noteForgetting(row.key, version: row.version)
    }

    /// Remembers a written row. If it was changed based on an earlier state, only the differing columns were written;
    /// the whole row is then unknown and not remembered.
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

    /// Records that the cloud's record of an item changed.
    func noteRecord(of id: ItemID, before: RecordState?, after: RecordState?) {
        folderChanges.note(id, before: before, after: after)
    }

    /// Requests a new count of all folders' totals.
    func recountFolders() { folderChanges.isIncomplete = true }

    // The stored totals include this transaction's changes only after the commit.
    override var isAheadOfSums: Bool { true }

    // MARK: Statements

    /// Executes a statement. This is the only way in which a transaction changes the database.
    func execute(_ sql: String, _ values: [SQLValue]) throws {
        if journal == nil {
            try connection.run(sql, values)
        } else {
            statements.append(JournalStatement(sql: sql, values: values))
        }
    }

    /// Executes a statement on data that almost every transaction queries: the cloud's records and the records of
    /// contents. Programs rarely change these.
    func executeAtOnce(_ sql: String, _ values: [SQLValue]) throws {
        isUrgent = true
        try execute(sql, values)
    }

    /// The database with all earlier changes run.
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

    /// Runs the batch's waiting statements and this transaction's own.
    func runAll() throws {
        guard let journal else { return }
        try index.log.openBatch(connection, journal)
        while runCount < statements.count {
            try connection.run(statements[runCount].sql, statements[runCount].values)
            runCount += 1
        }
    }

    /// Records that this transaction only marks the row as written to.
    func noteWritingOn(_ row: ItemRow) {
        isWritingOn = row.isWriting && !row.flags.contains(.fresh) && row.nextVersion == nil
            && row.dirty.isSuperset(of: [.content, .times])
    }

    /// Updates the top folder's times after a remote change of its entries. Other folders' times come with their
    /// records; programs that look for new files check this folder's times too. The event of the entry covers the
    /// update.
    func touchTopFolder() throws {
        guard origin == .remote, events.contains(where: \.changesTopFolder), let before = try row(key: .root) else {
            return
        }
        var top = before
        top.changedAt = index.timekeeper.now()
        top.modifiedAt = top.changedAt
        try update(top, before: before)
    }

    /// Creates the top folder in a new index.
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
