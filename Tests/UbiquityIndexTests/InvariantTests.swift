import GRDB
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// The check itself: it must find planted damage.
@Suite struct InvariantTests {
    @Test(arguments: [
        ("an entry without item", "DELETE FROM items WHERE kind = 1"),
        (
            "an item with several entries",
            "INSERT INTO entries SELECT parent, x'01', item, directory FROM entries LIMIT 1"
        ),
        ("an entry in an item that is not a folder", "UPDATE entries SET parent = 99 WHERE directory = 0"),
        ("a deleted item with an entry", "UPDATE items SET dirty = 64 WHERE kind = 1"),
        ("a cycle of folders", "UPDATE entries SET parent = item WHERE directory"),
        ("the top folder has an entry", "INSERT INTO entries VALUES (1, x'01', 1, 1)"),
        ("the top folder is dirty", "UPDATE items SET dirty = 4 WHERE key = 1"),
        ("an entry whose kind differs", "UPDATE entries SET directory = 1 - directory"),
        ("a content shared by two items", "UPDATE items SET content = 7 WHERE kind = 1"),
        ("a content in an item that is not a file", "UPDATE items SET content = key WHERE kind = 2"),
        ("a content state that contradicts the content", "UPDATE items SET content = NULL WHERE kind = 1"),
        ("a placeholder without a version", "UPDATE items SET contentState = 1 WHERE kind = 1"),
        ("a changed content that is not here", "UPDATE items SET contentState = 1 WHERE kind = 1"),
        ("the same position in the order", "UPDATE items SET dirtyOrder = 5 WHERE key <> 1"),
        ("an excluded item with changes", "UPDATE items SET flags = 4 WHERE kind = 1"),
        ("a synced item in an excluded folder", "UPDATE items SET flags = 4 WHERE kind = 2 AND key <> 1"),
        ("an excluded file without local content", "UPDATE items SET flags = 4, contentState = 1 WHERE kind = 1"),
        ("in use that is not reserved", "UPDATE meta SET value = 3 WHERE name = 'numbers'"),
        ("an unreadable item", "UPDATE items SET kind = 9 WHERE kind = 1"),
        ("an unreadable item", "UPDATE items SET id = x'00' WHERE key <> 1 AND kind = 2"),
        ("an unreadable item", "UPDATE items SET contentState = 3 WHERE kind = 1"),
        (
            "an excluded item that is synced",
            "UPDATE items SET flags = 4, dirty = 0, version = randomblob(16) WHERE kind = 1"
        ),
        ("wrongly marked as deleted elsewhere", "UPDATE items SET flags = 32 WHERE kind = 1"),
        ("an unknown flag", "UPDATE items SET flags = 1 << 20 WHERE kind = 1"),
        ("an item marked as truncated without a writer", "UPDATE items SET flags = 128 WHERE kind = 1"),
        ("a field that is not a number", "UPDATE items SET dirty = x'01' WHERE kind = 1"),
        ("an impossible key or inode number", "UPDATE items SET ino = -1 WHERE kind = 2 AND key <> 1"),
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
