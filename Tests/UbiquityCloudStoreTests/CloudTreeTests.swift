import GRDB
import Testing

@testable import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Rows of the tree that no commit makes. The tests write them into the database, and the cloud's upkeep repairs them.
@Suite struct CloudTreeTests {
    private let bench: CloudBench
    private let small = ChunkSamples.chunk(1)

    init() throws { bench = try CloudBench() }

    private func id(_ number: UInt64) -> String { "x'\(Hex.encode(ItemID.number(number).bytes))'" }

    /// A file with two names, a symlink, and a folder in a folder.
    private func plant(_ sql: String) async throws {
        let service = try await bench.container()
        _ = try await service.commit(
            bench.request(
                [
                    try bench.file(1, "file", [small]), try Make.hardLink(2, "name", to: 1),
                    try Make.link(3, "symlink", to: "file"), try Make.folder(4, "outer"),
                    try Make.folder(5, "inner", in: .number(4)), try Make.folder(6, "other"),
                    try Make.hardLink(7, "second", to: 1),
                ], [small]))
        _ = try await service.commit(bench.request([try Make.folder(8, "deepest", in: .number(5))]))
        try await bench.reopen {
            let database = try DatabaseQueue(path: bench.folder.path + "/metadata.db")
            try database.write { try $0.execute(sql: sql) }
            try database.close()
        }
    }

    /// All live items by their ids, as a new device reads them, after the repair.
    private func mended(_ expected: [UInt64]) async throws -> [ItemID: RemoteItem] {
        let revision = try await bench.container().open().revision
        let findings = try await bench.cloud.examineTrees()
        #expect(Set(findings.map(\.item)) == Set(expected.map { ItemID.number($0) }), "\(findings)")
        let left = findings.filter { !$0.isMended }
        #expect(left == [])
        #expect(try await bench.cloud.examineTrees() == [])
        let service = try await bench.container(), page = try await service.changes(after: .zero, limit: 100)
        #expect(!page.isIncomplete)
        // Devices that have read everything get the repaired records.
        let news = try await service.changes(after: revision, limit: 100)
        #expect(Set(news.items.map(\.id)).isSuperset(of: findings.map(\.item)))
        try await expectATree(page.items)
        return Dictionary(uniqueKeysWithValues: page.items.map { ($0.id, $0) })
    }

    private func expectATree(_ items: [RemoteItem]) async throws {
        let live = Dictionary(uniqueKeysWithValues: items.filter { !$0.isDeleted }.map { ($0.id, $0) })
        for item in live.values {
            var parent = item.parent, steps = 0
            while parent != .root, steps < 10 {
                let folder = try #require(live[parent])
                #expect(folder.kind == .directory)
                (parent, steps) = (folder.parent, steps + 1)
            }
            #expect(steps < 10, "\(item.name) lies in itself")
            if item.kind == .hardLink {
                let target = try #require(ItemID(bytes: item.linkTarget).flatMap { live[$0] })
                #expect(target.kind == .file || target.kind == .symlink)
            }
        }
    }

    @Test func soundTreeIsLeftAlone() async throws {
        try await plant("SELECT 1")
        let before = try await bench.container().open().revision
        #expect(try await mended([]).count == 8)
        #expect(try await bench.container().open().revision == before)
    }

    @Test func linkToItselfIsDeleted() async throws {
        try await plant("UPDATE items SET link = id WHERE id = \(id(2))")
        let items = try await mended([2])
        #expect(items[.number(2)] == nil && items[.number(1)] != nil)
    }

    @Test func linkToALinkLeadsToItsFile() async throws {
        try await plant("UPDATE items SET link = \(id(7)) WHERE id = \(id(2))")
        let items = try await mended([2])
        #expect(items[.number(2)]?.linkTarget == ItemID.number(1).bytes)
    }

    @Test func linksInACircleAreDeleted() async throws {
        try await plant(
            "UPDATE items SET link = \(id(7)) WHERE id = \(id(2)); UPDATE items SET link = \(id(2)) WHERE id = \(id(7))")
        let items = try await mended([2, 7])
        #expect(items[.number(2)] == nil && items[.number(7)] == nil)
    }

    @Test func linkToAFolderIsDeleted() async throws {
        try await plant("UPDATE items SET link = \(id(4)) WHERE id = \(id(2))")
        #expect(try await mended([2])[.number(2)] == nil)
    }

    @Test func folderInItselfMovesToTheTop() async throws {
        try await plant("UPDATE items SET parent = id WHERE id = \(id(5))")
        let items = try await mended([5])
        #expect(items[.number(5)]?.parent == .root)
        #expect(items[.number(8)]?.parent == .number(5))
    }

    @Test func fileInItselfMovesToTheTop() async throws {
        try await plant("UPDATE items SET parent = id WHERE id = \(id(1))")
        #expect(try await mended([1])[.number(1)]?.parent == .root)
    }

    /// The item that came last to its place moves. It gets another name if its own is taken at the top.
    @Test func circleOfFoldersIsOpened() async throws {
        try await plant(
            "UPDATE items SET parent = \(id(8)) WHERE id = \(id(4)); UPDATE items SET name = x'6f74686572' WHERE id = \(id(8))")
        let items = try await mended([8])
        #expect(items[.number(8)]?.parent == .root && items[.number(8)]?.name.description == "other 2")
        #expect(items[.number(4)]?.parent == .number(8) && items[.number(5)]?.parent == .number(4))
    }

    /// Each kind that a row can be changed into without its other fields.
    @Test(arguments: [(1, 2), (1, 3), (1, 4), (1, 9), (3, 1), (3, 2), (3, 4), (2, 1), (2, 2), (4, 1), (4, 3), (6, 4)] as [(UInt64, Int)])
    func changedKindIsRepaired(_ item: UInt64, _ kind: Int) async throws {
        try await plant("UPDATE items SET kind = \(kind) WHERE id = \(id(item))")
        let kinds: [UInt64: ItemKind] = [1: .file, 2: .hardLink, 3: .symlink, 4: .directory, 6: .directory]
        #expect(try await mended([item])[.number(item)]?.kind == kinds[item])
    }

    /// Only its device knows its version. As a folder it could not be sent again.
    @Test func fileThatLostItsVersionStaysAFile() async throws {
        try await plant("UPDATE items SET version = NULL WHERE id = \(id(1))")
        #expect(try await bench.cloud.examineTrees() == [])
    }

    @Test func upkeepExaminesTheTrees() async throws {
        try await plant("UPDATE items SET link = id WHERE id = \(id(2)); UPDATE items SET parent = id WHERE id = \(id(5))")
        try await bench.cloud.maintain()
        #expect(try await bench.cloud.examineTrees() == [])
    }

    @Test func undeletedLinkToItselfStaysDeleted() async throws {
        try await plant("UPDATE items SET link = id, deleted = 1800000000000000000 WHERE id = \(id(2))")
        let service = try await bench.container(), base = try await service.open().revision
        let change = ItemChange(
            id: .number(2), kind: .hardLink, baseRevision: base, changedAt: .at(1_800_000_000), action: .undelete(nil))
        let result = try #require(try await service.commit(bench.request([change])).results.first)
        #expect(result.item?.isDeleted == true)
    }
}
