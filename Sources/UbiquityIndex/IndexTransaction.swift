import GRDB
package import UbiquityCore
internal import UbiquitySystem

/// One transaction on the index. Valid only inside the call that passed it.
///
/// It writes rows and names, and knows what it has changed. Its `reader` answers queries. The other tables have structs
/// that write them: `remotes`, `contents`, `versions`, `meta`. The rules of the local tree are structs too: `tree`,
/// `renaming` and so on.
package final class IndexTransaction: IndexQueries {
    let connection: Database
    let index: ItemIndex
    let origin: IndexEvent.Origin
    private(set) var changes = TransactionChanges()
    private(set) var events: [IndexEvent] = []
    private var work: TransactionStatements
    /// Whether the transaction only records a further write to a file already marked as being written.
    private var isWritingOn = false

    /// Changes for the totals of folders.
    var folderChanges: FolderChanges { changes.folders }
    /// The statements so far, in order, if they are kept for the journal.
    var statements: [JournalStatement] { work.statements }
    /// How many of the statements have run in the database. The others run before the next query, or later.
    var runCount: Int { work.runCount }
    /// Whether the database must run the statements at once.
    var isUrgent: Bool { work.isUrgent }

    /// Whether `fsync` must bring the transaction to disk. A transaction not made by a program counts if it left
    /// something to upload (a restored file), or gave a file being written another version.
    var isChange: Bool {
        guard origin == .local else { return changes.written.values.contains { !$0.dirty.isEmpty || $0.isWriting } }
        return !isWritingOn || work.statements.count > 1
    }

    init(_ connection: Database, index: ItemIndex, origin: IndexEvent.Origin, journal: IndexJournal?) {
        self.index = index
        self.origin = origin
        self.connection = connection
        work = TransactionStatements(journal)
        // A rename has this many events.
        events.reserveCapacity(4)
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

    package var reader: IndexReader { IndexReader(self) }

    package var packageFinder: PackageFinder { PackageFinder(self, index) }

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
    package func row(key: ItemKey) throws -> ItemRow? {
        if changes.touched.contains(key) { return try changes.written[key] ?? reader.items.storedRow(key: key) }
        if !changes.forgetsAll, let row = index.cache.rows.row(key: key) { return row }
        return try reader.items.storedRow(key: key)
    }

    package func row(ino: UInt64) throws -> ItemRow? {
        guard !changes.forgetsAll, let row = index.cache.rows.row(ino: ino) else {
            return try reader.items.storedRow(ino: ino)
        }
        guard changes.touched.contains(row.key) else { return row }
        if let written = changes.written[row.key], written.ino == ino { return written }
        return try reader.items.storedRow(ino: ino)
    }

    package func child(of parent: ItemKey, named name: ItemName) throws -> ItemRow? {
        let entry = ItemRow.Entry(parent: parent, name: name)
        if let changed = changes.names.items[entry] { return try changed.flatMap { try row(key: $0) } }
        switch changes.forgetsAll ? .unknown : index.cache.rows.child(at: entry) {
        case .row(let row): return changes.touched.contains(row.key) ? try self.row(key: row.key) : row
        case .nobody: return nil
        case .unknown: return try reader.items.storedChild(of: parent, named: name)
        }
    }

    /// Drops all remembered rows and names, because something changed other than row by row. Until the commit, queries
    /// go to the database.
    ///
    /// - Parameter recounts: Whether the totals of folders may have changed.
    func forgetRemembered(recounts: Bool = true) {
        changes.forgetAll()
        if recounts { recountFolders() }
    }

    /// Inserts a row (with a new key) and its entry.
    package func insert(_ row: ItemRow) throws {
        try execute(RowCoding.insert, RowCoding.values(row))
        changes.record(row)
        changes.folders.note(row.key, before: nil, after: row)
        // A lost top folder is recreated with its members still in place.
        if row.kind == .directory, row.key != .root { changes.names.noteNewFolder(row.key) }
        if let entry = row.entry { try link(entry, to: row) }
    }

    /// Writes the columns that differ from `before`, and moves the entry if it differs.
    package func update(_ row: ItemRow, before: ItemRow) throws {
        let mask = RowCoding.difference(row, before)
        if mask != 0 {
            try execute(index.cache.updateStatement(mask), RowCoding.values(row, mask))
        }
        changes.record(row, before: before)
        changes.folders.note(row.key, before: before, after: row, isWhole: changes.written[row.key] != nil) {
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
        changes.folders.note(row.key, before: row, after: nil) { index.cache.rows.row(key: row.key) }
        changes.recordDeletion(of: row.key)
        noteTrust(row, after: nil)
        if let entry = row.entry { try unlink(entry) }
        guard row.isDeleted else { return }
        try versions.forgetRestorations(of: row.id)
        index.tunnels.noteForgetting(row.key, version: row.version)
    }

    /// Records a row whose content no longer is the cloud's.
    private func noteTrust(_ before: ItemRow, after: ItemRow?) {
        guard let content = before.content, before.isAsTheCloudHasIt else { return }
        if let after, after.content == content, after.isAsTheCloudHasIt { return }
        index.log.disk.trust.withLock { $0.insert(content) }
    }

    private func link(_ entry: ItemRow.Entry, to row: ItemRow) throws {
        try execute(
            RowCoding.insertEntry,
            [SQLValue(entry.parent), SQLValue(entry.name), SQLValue(row.key), row.kind == .directory ? 1 : 0])
        changes.names.give(entry, to: row.key)
    }

    package func unlink(_ entry: ItemRow.Entry) throws {
        try execute(RowCoding.deleteEntry, [SQLValue(entry.parent), SQLValue(entry.name)])
        changes.names.give(entry, to: nil)
    }

    /// Records that the cloud's record of an item changed.
    func noteRecord(of id: ItemID, before: RecordState?, after: RecordState?) {
        changes.folders.note(id, before: before, after: after)
    }

    /// Requests a new count of all folders' totals.
    func recountFolders() { changes.folders.isIncomplete = true }

    // MARK: Statements

    /// Executes a statement. This is the only way in which a transaction changes the database.
    func execute(_ sql: String, _ values: [SQLValue]) throws {
        if !work.add(sql, values) { try connection.run(sql, values) }
    }

    /// Executes a statement on data that almost every transaction queries: the cloud's records and the records of
    /// contents. Programs rarely change these.
    func executeAtOnce(_ sql: String, _ values: [SQLValue]) throws {
        work.isUrgent = true
        try execute(sql, values)
    }

    /// The connection for queries that concern only statements run at once.
    var currentPart: Database {
        get throws {
            let journal = work.journal
            if !connection.isInsideTransaction { journal?.noteOpening() }
            if work.isUrgent || journal?.lacksUrgent ?? false { try runAll() }
            return connection
        }
    }

    /// Runs the batch's waiting statements and this transaction's own.
    func runAll() throws {
        guard let journal = work.journal else { return }
        try index.log.openBatch(connection, journal)
        try work.run(connection)
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

/// The rows and names that a transaction has changed.
struct TransactionChanges {
    private(set) var touched: Set<ItemKey> = []
    /// The touched rows as they are now.
    private(set) var written: [ItemKey: ItemRow] = [:]
    var names = NameChanges()
    /// Whether all remembered rows and names must be dropped.
    private(set) var forgetsAll = false
    /// Changes for the totals of folders.
    var folders = FolderChanges()

    /// Remembers a written row. If it was changed based on an earlier state, only the differing columns were written;
    /// the whole row is then unknown and not remembered.
    mutating func record(_ row: ItemRow, before: ItemRow? = nil) {
        let isFirst = touched.insert(row.key).inserted
        written[row.key] = isFirst || before == nil || written[row.key] == before ? row : nil
    }

    mutating func recordDeletion(of key: ItemKey) {
        touched.insert(key)
        written[key] = nil
    }

    mutating func forgetAll() {
        forgetsAll = true
        written = [:]
        names = NameChanges()
    }
}

/// The statements of a transaction that are kept for the journal.
struct TransactionStatements {
    /// Nil if each statement runs at once and is not kept.
    let journal: IndexJournal?
    private(set) var statements: [JournalStatement] = []
    private(set) var runCount = 0
    var isUrgent = false

    init(_ journal: IndexJournal?) {
        self.journal = journal
        if journal != nil { statements.reserveCapacity(8) }
    }

    /// - Returns: False if the statement is not kept and must run now.
    mutating func add(_ sql: String, _ values: [SQLValue]) -> Bool {
        guard journal != nil else { return false }
        statements.append(JournalStatement(sql: sql, values: values))
        return true
    }

    mutating func run(_ connection: Database) throws {
        while runCount < statements.count {
            try connection.run(statements[runCount].sql, statements[runCount].values)
            runCount += 1
        }
    }
}

/// A group of changes within one transaction.
protocol TransactionPart {
    var transaction: IndexTransaction { get }
}

extension TransactionPart {
    var index: ItemIndex { transaction.index }
    var reader: IndexReader { transaction.reader }
    var items: ItemTable { transaction.reader.items }
    var tree: LocalTree { transaction.tree }
    var exclusion: Exclusion { transaction.exclusion }
    var hardLinks: HardLinks { transaction.hardLinks }

    func execute(_ sql: String, _ values: [SQLValue]) throws { try transaction.execute(sql, values) }
    func executeAtOnce(_ sql: String, _ values: [SQLValue]) throws { try transaction.executeAtOnce(sql, values) }
}

extension IndexTransaction {
    package var remotes: RemoteWriter { RemoteWriter(transaction: self) }
    package var contents: ContentWriter { ContentWriter(transaction: self) }
    package var versions: VersionWriter { VersionWriter(transaction: self) }
    package var meta: MetaWriter { MetaWriter(transaction: self) }

    package var tree: LocalTree { LocalTree(transaction: self) }
    var writes: LocalWrites { LocalWrites(transaction: self) }
    var renaming: LocalRename { LocalRename(transaction: self) }
    var tunnelling: Tunnelling { Tunnelling(transaction: self) }
    package var hardLinks: HardLinks { HardLinks(transaction: self) }
    package var exclusion: Exclusion { Exclusion(transaction: self) }
    package var pins: PinInheritance { PinInheritance(transaction: self) }
    package var placing: VersionPlacing { VersionPlacing(transaction: self) }

    package var repair: IndexRepair { IndexRepair(transaction: self) }
    package var marks: MarkRepair { MarkRepair(transaction: self) }
}
