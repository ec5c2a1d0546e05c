import GRDB
internal import UbiquityCore
internal import UbiquitySystem

// Examinations and repairs, for `ubiquity doctor`, the start of a mount and tests.
extension ItemIndex {
    /// Returns the errors SQLite finds in the database's pages and indexes; empty if there are none.
    package func integrityProblems() throws -> [String] {
        try read { reader in
            let schema = try SchemaProblems(in: try reader.db)
            return try String.fetchAll(try reader.db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
                + schema.beyondRepair + schema.repairable.map(\.problem)
        }
    }

    /// Returns whether some row is unreadable, so that reading it fails.
    package func hasUnreadableRows() throws -> Bool { try read { try $0.examination.hasUnreadableRows() } }

    /// Returns the violated invariants of the index.
    ///
    /// - Parameter isAlone: True if no other process uses the index. Then ignore rules and the totals of folders
    ///   (`wrongTotals`) are compared too.
    package func contradictions(isAlone: Bool) throws -> [String] {
        try write(.startup) { transaction in
            let broken = try transaction.contradictions(withTotals: isAlone)
            // Unreadable rows must be repaired first.
            guard isAlone, try !transaction.reader.examination.hasUnreadableRows() else { return broken }
            let local = try transaction.marks.wronglyKeptLocal()
            return broken + (local.isEmpty ? [] : ["excluded from sync without a reason: \(local.prefix(5))"])
        }
    }

    /// Returns how the totals of folders differ from those of the items; nil if they do not.
    package func wrongTotals() throws -> String? { try write(.startup) { try $0.reader.examination.wrongTotals() } }

    /// Problems of an index that no process has open.
    package struct FileProblems: Sendable {
        /// Problems that cannot be repaired.
        package var database: [String] = []
        /// Problems that `repairSchema` repairs.
        package var schema: [String] = []
        package var journal: [String] = []
        /// Whether the journal's path holds something other than a file.
        package var isJournalNoFile = false
    }

    /// Examines an index that no process has open. Changes nothing.
    package static func problems(ofIndexAt path: String) throws -> FileProblems {
        var found = FileProblems()
        let journal = journalRoom(ofIndexAt: path).path
        guard try FileSystem.exists(path) else {
            if try FileSystem.exists(journal) { found.database = ["the database is missing"] }
            return found
        }
        guard FileSystem.isFile(path) else {
            found.database = ["not a regular file"]
            return found
        }
        do {
            var configuration = Configuration()
            configuration.readonly = true
            let database = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? database.close() }
            return try database.unsafeRead { db in
                var problems = try String.fetchAll(db, sql: "PRAGMA integrity_check(20)").filter { $0 != "ok" }
                let schema = try SchemaProblems(in: db)
                problems += schema.beyondRepair
                if problems.isEmpty, try number("journal", db) < 0 {
                    problems.append("its change number is damaged")
                }
                found.database = problems
                guard problems.isEmpty else { return found }
                found.schema = schema.repairable.map(\.problem)
                if try FileSystem.exists(journal), !FileSystem.isFile(journal) {
                    found.isJournalNoFile = true
                    found.journal = ["not a regular file; changes may be lost"]
                } else {
                    found.journal = try journalProblems(journal, db)
                }
                return found
            }
        } catch let error as DatabaseError {
            found.database = ["\(error.message ?? "\(error)")"]
            return found
        }
    }

    /// Returns the number of files in an index, which another process may have open. Changes nothing. Changes that are
    /// only in the journal are not counted.
    package static func fileCount(ofIndexAt path: String) throws -> Int64 {
        try count(
            "SELECT count(*) FROM entries JOIN items ON items.key = entries.item WHERE items.kind = ?",
            [ItemKind.file.rawValue], inIndexAt: path)
    }

    /// The same for the items with changes that wait to be uploaded.
    package static func unsentCount(ofIndexAt path: String) throws -> Int64 {
        try count("SELECT count(*) FROM items WHERE \(PendingTable.isUnsent)", [], inIndexAt: path)
    }

    private static func count(
        _ question: String, _ arguments: StatementArguments, inIndexAt path: String
    ) throws -> Int64 {
        var configuration = Configuration()
        configuration.readonly = true
        let database = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? database.close() }
        return try database.unsafeRead { try Int64.fetchOne($0, sql: question, arguments: arguments) ?? 0 }
    }

    private static func number(_ name: String, _ db: Database) throws -> Int64 {
        try Int64.fetchOne(db, sql: "SELECT value FROM meta WHERE name = ?", arguments: [name]) ?? 0
    }

    private static func journalProblems(_ path: String, _ db: Database) throws -> [String] {
        guard try db.tableExists("meta") else { return [] }
        guard try FileSystem.exists(path) else { return ["the journal is missing"] }
        func number(_ name: String) throws -> UInt64 { UInt64(bitPattern: try Self.number(name, db)) }
        let journal = try IndexJournal(reading: path)
        let life = try number("life")
        if try number("begun") == life, try journal.isDamaged(after: number("journal"), of: life, looksThrough: false) {
            return ["the journal does not belong to this database; changes may be lost"]
        }
        return try journal.damage(after: number("journal"), of: number("life")).map { [$0] } ?? []
    }

    /// Checks the invariants that hold after every transaction, including those of the cache. Call it while nothing
    /// writes.
    ///
    /// - Throws: `.damaged` with the violated invariants.
    package func check() throws {
        try read { try $0.checkInvariants() }
        for row in cache.rows.all where try read({ try $0.row(ino: row.ino) }) != row {
            throw UbiquityError(.damaged, "the cached row of \(row.key) differs from the index")
        }
        try checkNames()
    }

    private func checkNames() throws {
        let (items, whole) = cache.rows.allNames
        let entries = try read { try $0.examination.allEntries() }
        for (entry, item) in items where entries[entry] != item {
            throw UbiquityError(.damaged, "the cached owner of the name \(entry) differs from the index")
        }
        for (entry, item) in entries where whole.contains(entry.parent) && items[entry] != .some(item) {
            throw UbiquityError(.damaged, "the cache lacks a name of \(item) in a folder it considers complete")
        }
    }

    /// Takes away, once, the set-user-id and set-group-id bits that other devices may have set here: an earlier program
    /// accepted them, or a mount that trusted them (`--trust-suid`). The cloud's records keep them.
    ///
    /// The index does not know who set a bit. So it also takes a bit away that was set here and uploaded; a change that
    /// waits for its upload stays.
    /// - Parameter trusts: whether this mount accepts such bits. Then the next mount that does not has to look.
    /// - Returns: the number of items whose mode changed.
    package func reviewPrivileges(trusts: Bool) throws -> Int {
        let isReviewed = try read { try $0.meta.hasNoForeignPrivileges() }
        guard !trusts else {
            if isReviewed { try write(.startup) { try $0.meta.setHasNoForeignPrivileges(false) } }
            return 0
        }
        var count = 0, isLast = isReviewed
        while !isLast {
            let rows = try read { try $0.items.rowsWithForeignPrivileges(limit: Self.privilegesPage) }
            isLast = rows.count < Self.privilegesPage
            try write(.startup) { [isLast] transaction in
                for before in rows {
                    var row = before
                    row.mode &= ~Privileges.bits
                    try transaction.update(row, before: before)
                    transaction.note(.attributes, before: before, after: row)
                }
                if isLast { try transaction.meta.setHasNoForeignPrivileges(true) }
            }
            count += rows.count
        }
        return count
    }

    /// Items changed in one transaction.
    private static let privilegesPage = 1000

    /// Repairs the tables of an index that no process has open.
    ///
    /// - Returns: The problems that remain.
    package static func repairSchema(ofIndexAt path: String) throws -> [String] {
        try mapErrors {
            let database = try DatabaseQueue(path: path)
            let left = try database.writeWithoutTransaction { db in
                // The second pass repairs what a recreated table lacks.
                for _ in 1...2 {
                    for (_, repair) in try SchemaProblems(in: db).repairable { try? db.execute(sql: repair) }
                }
                return try SchemaProblems(in: db).repairable.map(\.problem)
            }
            try database.close()
            return left
        }
    }
}
