import Testing
import UbiquityCore
import UbiquityIndex

@Suite struct TreeTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    @Test func childrenComeInPagesByTheBytesOfTheirNames() throws {
        let names = ["b", "a", "é", "Z", "a b", "a.b", "\u{1F600}", "zz"]
        try fixture.directory("d")
        for name in names { try fixture.file("d/\(name)") }
        let folder = try fixture.found("d")
        var seen = [ItemName]()
        while true {
            let page = try fixture.index.read { try $0.children(of: folder.key, after: seen.last, limit: 3) }
            if page.isEmpty { break }
            seen += page.compactMap { $0.entry?.name }
        }
        #expect(seen == (try names.map { try ItemName($0) }).sorted())
        #expect(try fixture.index.read { try $0.hasChildren(folder.key) })
        let file = try fixture.found("d/a").key
        #expect(try !fixture.index.read { try $0.hasChildren(file) })
    }

    @Test func subfoldersAreCounted() throws {
        try fixture.directory("d")
        let folder = try fixture.found("d").key
        func count() throws -> Int { try fixture.index.read { try $0.directoryCount(in: folder) } }
        #expect(try count() == 0)
        try fixture.file("d/f")
        try fixture.symlink("d/l", "x")
        try fixture.directory("d/one")
        try fixture.directory("two")
        #expect(try count() == 1)
        try fixture.rename("two", "d/two")
        #expect(try count() == 2)
        try fixture.rename("d/one", "d/f", .exchanging)
        #expect(try count() == 2)
        try fixture.remove("d/two", directory: true)
        #expect(try count() == 1)
        try fixture.rename("d/f", "out")
        #expect(try count() == 0)
        fixture.check()
    }

    @Test func pathsAndItemsAgree() throws {
        try fixture.directory("a")
        try fixture.directory("a/b")
        let file = try fixture.file("a/b/c")
        #expect(try fixture.index.read { try $0.path(of: file.key) }?.map(\.description) == ["a", "b", "c"])
        #expect(try fixture.index.read { try $0.path(of: .root) } == [])
        #expect(try fixture.index.read { try $0.path(of: ItemKey(1 << 40)) } == nil)
        #expect(try fixture.row("a/x/c") == nil)
        #expect(try fixture.row("")?.key == .root)
        let a = try fixture.found("a").key, b = try fixture.found("a/b").key
        func isWithin(_ key: ItemKey, _ ancestor: ItemKey) throws -> Bool {
            try fixture.index.read { try $0.isWithin(key, ancestor) }
        }
        for (key, ancestor) in [(file.key, a), (b, a), (a, a), (file.key, .root)] {
            #expect(try isWithin(key, ancestor))
        }
        for (key, ancestor) in [(a, b), (.root, a), (b, file.key)] { #expect(try !isWithin(key, ancestor)) }
        try fixture.remove("a/b/c")
        #expect(try fixture.index.read { try $0.path(of: file.key) } == nil)
    }

    @Test func foldersNestToTheLimitAndNoFurther() throws {
        let folder = NewItem(kind: .directory, mode: 0o755, uid: 0, gid: 0)
        let name = try ItemName("d")
        var ino: UInt64 = 1
        var depth = 0
        let error = #expect(throws: UbiquityError.self) {
            while depth <= Limits.maximumDepth {
                ino = try fixture.index.create(in: ino, named: name, folder).ino
                depth += 1
            }
        }
        #expect(error?.code == .nameTooLong)
        // Files may still be in the deepest folder.
        #expect(depth == Limits.maximumDepth - 1)
        let deepest = try #require(try fixture.row(ino: ino))
        #expect(try fixture.index.read { try $0.path(of: deepest.key) }?.count == depth)
        let file = NewItem(kind: .symlink, mode: 0o777, uid: 0, gid: 0, linkTarget: [1])
        let bottom = try fixture.index.create(in: ino, named: ItemName("file"), file)
        #expect(try fixture.index.read { try $0.path(of: bottom.key) }?.count == Limits.maximumDepth)
        #expect(try fixture.index.read { try $0.isWithin(bottom.key, .root) })
        // A move must not exceed the depth either.
        try fixture.directory("other")
        expect(.nameTooLong) { _ = try fixture.index.rename(from: 1, ItemName("other"), to: ino, name, .replacing) }
        // Nor may the entries of a moved folder.
        expect(.nameTooLong) { _ = try fixture.rename("d", "other/d") }
        try fixture.file("f")
        _ = try fixture.index.rename(from: 1, ItemName("f"), to: ino, ItemName("g"), .replacing)
        fixture.check()
    }

    @Test func wideFolderIsListed() throws {
        let count = 3000
        let folder = try fixture.directory("wide")
        for number in 0..<count {
            _ = try fixture.index.create(
                in: folder.ino, named: ItemName("file \(number)"),
                NewItem(kind: .symlink, mode: 0o777, uid: 0, gid: 0, linkTarget: [1]))
        }
        #expect(try fixture.index.read { try $0.children(of: folder.key, after: nil, limit: .max) }.count == count)
        #expect(try fixture.index.read { try $0.dirtyRows(after: 0, limit: .max) }.count == count + 1)
        #expect(try fixture.index.read { try $0.itemCount() } == Int64(count) + 1)
        fixture.check()
    }

    // MARK: Events

    @Test func eventsDescribeTheChanges() throws {
        _ = fixture.events()
        let file = try fixture.file("a")
        var events = fixture.events()
        #expect(events.map(\.kind) == [.added, .attributes] && events[0].after == file && events[0].before == nil)
        #expect(events.allSatisfy { $0.origin == .local } && events[1].after?.key == .root)
        try fixture.rename("a", "b")
        events = fixture.events()
        #expect(events.map(\.kind) == [.moved, .attributes])
        #expect(events[0].before?.entry?.name.description == "a" && events[0].after?.entry?.name.description == "b")
        let other = try fixture.file("c")
        _ = fixture.events()
        try fixture.rename("c", "b")
        events = fixture.events()
        #expect(events.map(\.kind) == [.removed, .replaced, .attributes])
        #expect(events[0].before?.ino == other.ino && events[1].before?.ino == file.ino)
        #expect(events[1].after?.ino == other.ino && events[1].after?.id == file.id)
        try fixture.rename("b", "b")
        #expect(fixture.events().isEmpty)
        try fixture.file("d")
        _ = fixture.events()
        try fixture.rename("b", "d", .exchanging)
        #expect(fixture.events().map(\.kind) == [.moved, .moved, .attributes])
        try fixture.remove("d")
        events = fixture.events()
        #expect(events.map(\.kind) == [.removed, .attributes] && events[0].after == nil)
        #expect(throws: UbiquityError.self) { try fixture.remove("none") }
        #expect(fixture.events().isEmpty)
    }
}
