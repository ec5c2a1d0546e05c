import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync

/// A folder moves into a folder that was moved out of it: the cloud must not see it in itself.
@Suite struct FolderCycleTests {
    private func id(_ number: UInt64) -> ItemID { Fixture.id(number) }
    private func ids(_ planner: Planner) -> Set<ItemID> { Set(planner.group.map(\.change.id)) }

    /// Each folder is in the one before it.
    private func nested(_ names: String...) throws -> Fixture {
        let fixture = try Fixture()
        for (number, name) in zip(UInt64(1)..., names) {
            try fixture.receive(fixture.folder(number, name, in: number == 1 ? .root : id(number - 1)))
        }
        return fixture
    }

    /// The cloud's record of a locally created item, before the answer to its commit.
    private func tell(_ fixture: Fixture, of row: ItemRow, in parent: ItemID = .root) throws {
        let name = try #require(row.entry?.name)
        try fixture.receive(
            RemoteItem(
                id: row.id, kind: .directory, revision: Revision(2), parent: parent, name: name, mode: row.mode,
                createdAt: row.createdAt, modifiedAt: row.modifiedAt))
        #expect(try fixture.index.read { try $0.row(id: row.id) }?.dirty.contains(.created) == true)
    }

    @Test func folderMoveIsSentWithTheMoveOut() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "d"), fixture.folder(2, "s", in: id(1)), fixture.folder(3, "e"))
        try fixture.remove("e")
        try fixture.rename("d/s", "e")
        try fixture.rename("d", "e/t")
        let folder = try fixture.found("e/t")
        #expect(try fixture.plan([folder], deletionsUpTo: 0).group.isEmpty)
        #expect(try ids(fixture.plan([folder])) == [id(1), id(2), id(3)])
    }

    @Test func folderIsNewButAtTheCloud() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "h"), fixture.folder(3, "e"))
        let new = try fixture.make("f", .directory)
        try fixture.rename("h", "f/h")
        try tell(fixture, of: new)
        try fixture.receive(fixture.folder(1, "h", in: new.id, at: 2))
        try fixture.remove("e")
        try fixture.rename("f/h", "e")
        try fixture.rename("f", "e/f")
        let folder = try fixture.found("e/f")
        #expect(try fixture.plan([folder], deletionsUpTo: 0).group.isEmpty)
        #expect(try ids(fixture.plan([folder])) == [new.id, id(1), id(3)])
    }

    @Test func folderBetweenIsNewButAtTheCloud() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.folder(1, "f"), fixture.folder(2, "p"), fixture.folder(3, "e"))
        let new = try fixture.make("f/g", .directory)
        try fixture.rename("p", "f/g/p")
        try tell(fixture, of: new, in: id(1))
        try fixture.receive(fixture.folder(2, "p", in: new.id, at: 2))
        try fixture.remove("e")
        try fixture.rename("f/g", "e")
        try fixture.rename("f", "e/p/f")
        let folder = try fixture.found("e/p/f")
        #expect(try fixture.plan([folder], deletionsUpTo: 0).group.isEmpty)
        #expect(try ids(fixture.plan([folder])) == [new.id, id(1), id(2), id(3)])
    }

    /// The first move out depends on others.
    @Test func moveOutWithDependenciesIsSkipped() throws {
        let fixture = try nested("a", "m", "q", "n")
        try fixture.rename("a/m/q/n", "n")
        try fixture.rename("a", "n/a")
        try fixture.rename("n/a/m", "a")
        for order in [["n/a", "a"], ["a", "n/a"]] {
            let rows = try order.map { try fixture.found($0) }
            #expect(try ids(fixture.plan(rows, isOwned: { $0.id == Fixture.id(4) })) == [id(1), id(2)])
        }
    }

    /// Otherwise the cloud, which has an item in it, keeps it.
    @Test func formerParentWaitsToo() throws {
        let fixture = try nested("d", "a", "q", "b")
        try fixture.rename("d/a/q/b", "b")
        try fixture.rename("d/a", "b/t")
        try fixture.remove("d")
        let folder = try #require(try fixture.index.read { try $0.row(id: Fixture.id(1)) })
        func planned(isAwaited: Bool) throws -> Set<ItemID> {
            try ids(
                fixture.plan([folder], isOwned: { $0.id == Fixture.id(4) }, isAwaited: { _, _ in isAwaited }))
        }
        #expect(try planned(isAwaited: true) == [])
        #expect(try planned(isAwaited: false) == [id(1)])
    }
}
