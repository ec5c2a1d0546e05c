import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityWire

/// The cloud answers a folder's deletion by keeping the folder.
@Suite struct KeptDeletionTests {
    private func world() throws -> Fixture {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"))
        try fixture.receive(fixture.folder(2, "c", in: Fixture.id(1)))
        return fixture
    }

    /// Sends the deletion of `d` without its other changes.
    private func answerKept(_ fixture: Fixture) throws {
        let group = try fixture.plan(fixture.dirty()).group.filter { $0.row.id == Fixture.id(1) }
        let item = try #require(try fixture.index.read { try $0.remote(id: Fixture.id(1)) })
        try fixture.apply(group, [ChangeResult(outcome: .applied, item: item)])
    }

    @Test func keptFolderWithDeletedChildStaysDeleted() throws {
        let fixture = try world()
        for path in ["d/c", "d"] { try fixture.remove(path) }
        try answerKept(fixture)
        #expect(try fixture.paths().isEmpty)
        #expect(try fixture.dirty().count { $0.isDeleted } == 2)
    }

    @Test func keptFolderWithMovedChildStaysDeleted() throws {
        let fixture = try world()
        try fixture.rename("d/c", "c")
        try fixture.remove("d")
        try answerKept(fixture)
        #expect(try fixture.paths() == ["c"])
        #expect(try fixture.dirty().contains { $0.isDeleted })
    }

    @Test func keptFolderWithForeignChildIsRestored() throws {
        let fixture = try world()
        for path in ["d/c", "d"] { try fixture.remove(path) }
        try fixture.receive(fixture.folder(3, "new", in: Fixture.id(1), at: 2))
        try answerKept(fixture)
        #expect(try fixture.paths() == ["d", "d/new"])
    }
}
