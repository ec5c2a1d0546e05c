import GRDB
import Testing
import UbiquityDatabase

@Suite struct SchemaTests {
    @Test(arguments: [
        ("CREATE TABLE t (a TEXT)", "primary key"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a TEXT UNIQUE)", "UNIQUE"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT)", "AUTOINCREMENT"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY, a TEXT)", "NOT NULL"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a TEXT, b TEXT AS (a || 'x'))", "generated"),
        ("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a TEXT REFERENCES t ON DELETE RESTRICT)", "RESTRICT"),
    ])
    func tableThatBreaksARuleFailsToOpen(_ sql: String, _ reason: String) throws {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { try $0.execute(sql: sql) }
        let error = #expect(throws: SchemaError.self) { try Peer(MemoryLog(), migrator) }
        #expect(error?.reason.contains(reason) == true)
    }

    @Test func localTableDoesNotTravel() throws {
        var migrator = Peer.people
        migrator.registerMigration("window") { db in
            try db.execute(sql: "CREATE TABLE window (name TEXT PRIMARY KEY NOT NULL, width INTEGER)")
        }
        let log = MemoryLog()
        let first = try Peer(log, migrator, local: ["window"]), second = try Peer(log, migrator, local: ["window"])
        try first.write("INSERT INTO window VALUES ('main', 3); INSERT INTO person (id) VALUES ('a')")
        try exchange(first, second)
        #expect(try second.rows("SELECT * FROM window") == [])
        #expect(try second.rows("SELECT id FROM person") == [["a"]])
    }

    @Test func triggerRunsOnlyWhereTheUserWrites() throws {
        var migrator = Peer.people
        migrator.registerMigration("count") { db in
            try db.execute(sql: """
                CREATE TABLE total (id TEXT PRIMARY KEY NOT NULL, number INTEGER DEFAULT 0);
                CREATE TRIGGER counting AFTER INSERT ON note BEGIN
                    UPDATE total SET number = number + 1 WHERE id = 'notes';
                END;
                """)
        }
        let log = MemoryLog(), first = try Peer(log, migrator), second = try Peer(log, migrator)
        try first.write("INSERT INTO total (id) VALUES ('notes')")
        try exchange(first, second)
        try first.write("INSERT INTO note (id) VALUES ('n')")
        try exchange(first, second)
        #expect(try first.rows("SELECT number FROM total") == [["1"]])
        #expect(try second.rows("SELECT number FROM total") == [["1"]])
    }
}
