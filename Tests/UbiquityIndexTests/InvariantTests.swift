import GRDB
import Testing
import UbiquityCore
import UbiquityIndex

/// The check itself: it must find what is broken on purpose.
@Suite struct InvariantTests {
    @Test(arguments: [
        ("an entry without item", "DELETE FROM items WHERE kind = 1"),
        ("more than one entry", "INSERT INTO entries SELECT parent, x'01', item, directory FROM entries LIMIT 1"),
        ("an entry in what is no folder", "UPDATE entries SET parent = 99 WHERE directory = 0"),
        ("a deleted item with an entry", "UPDATE items SET dirty = 64 WHERE kind = 1"),
        ("a circle of folders", "UPDATE entries SET parent = item WHERE directory"),
        ("the top folder has an entry", "INSERT INTO entries VALUES (1, x'01', 1, 1)"),
        ("the top folder is dirty", "UPDATE items SET dirty = 4 WHERE key = 1"),
        ("an entry of another kind", "UPDATE entries SET directory = 1 - directory"),
        ("content of two items", "UPDATE items SET content = 7 WHERE kind = 1"),
        ("content in what is no file", "UPDATE items SET content = key WHERE kind = 2"),
        ("content state without content", "UPDATE items SET content = NULL WHERE kind = 1"),
        ("a placeholder of no version", "UPDATE items SET contentState = 1 WHERE kind = 1"),
        ("changed content that is not here", "UPDATE items SET contentState = 1 WHERE kind = 1"),
        ("one place in the order", "UPDATE items SET dirtyOrder = 5 WHERE key <> 1"),
        ("excluded and dirty", "UPDATE items SET flags = 4 WHERE kind = 1"),
        ("synced below what is not", "UPDATE items SET flags = 4 WHERE kind = 2 AND key <> 1"),
        ("kept local without being here", "UPDATE items SET flags = 4, contentState = 1 WHERE kind = 1"),
        ("not written down as used", "UPDATE meta SET value = 3 WHERE name = 'numbers'"),
        ("an item that cannot be read", "UPDATE items SET kind = 9 WHERE kind = 1"),
        ("an item that cannot be read", "UPDATE items SET id = x'00' WHERE key <> 1 AND kind = 2"),
        ("an item that cannot be read", "UPDATE items SET contentState = 3 WHERE kind = 1"),
        ("kept local, and synced", "UPDATE items SET flags = 4, dirty = 0, version = randomblob(16) WHERE kind = 1"),
        ("what was not deleted elsewhere", "UPDATE items SET flags = 32 WHERE kind = 1"),
        ("a flag of what is unknown", "UPDATE items SET flags = 1 << 20 WHERE kind = 1"),
        ("begun anew by nobody", "UPDATE items SET flags = 128 WHERE kind = 1"),
        ("a field that is no number", "UPDATE items SET dirty = x'01' WHERE kind = 1"),
        ("a number that cannot be one", "UPDATE items SET ino = -1 WHERE kind = 2 AND key <> 1"),
        ("the top folder has another id", "UPDATE items SET id = randomblob(16) WHERE key = 1"),
        ("no top folder", "UPDATE items SET ino = 1 << 40 WHERE key = 1"),
    ])
    func damageIsFound(_ rule: String, _ damage: String) throws {
        let fixture = try Fixture()
        try fixture.directory("d")
        try fixture.file("d/a")
        try fixture.file("b")
        fixture.check()
        let database = try DatabaseQueue(path: fixture.folder("index.db"))
        try database.write { try $0.execute(sql: damage) }
        let error = #expect(throws: UbiquityError.self) { try fixture.index.read { try $0.checkInvariants() } }
        #expect(error?.code == .damaged)
        #expect(error?.message.contains(rule) == true, "\(error?.message ?? "")")
    }
}
