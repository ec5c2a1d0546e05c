import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// Items that ignore files exclude.
@Suite struct IgnoringTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func setRules(_ text: String?, in path: String) throws {
        try fixture.index.setIgnoreText(text.map { Array($0.utf8) }, of: fixture.found(path).key)
    }

    @Test func rulesApplyBelowTheirFolder() throws {
        try fixture.directory("d")
        try fixture.directory("d/e")
        try setRules("*.log\n/build/\n!keep.log\n!*~", in: "d")
        for path in ["d/a.log", "d/e/a.log"] { #expect(try fixture.file(path).isExcluded, "\(path)") }
        for path in ["a.log", "d/keep.log", "d/note~", "d/.ubiquityignore", "d/x"] {
            #expect(try !fixture.file(path).isExcluded, "\(path)")
        }
        #expect(try fixture.file("note~").isExcluded)
        #expect(try fixture.directory("d/build").isExcluded && !fixture.directory("d/e/build").isExcluded)
        #expect(try fixture.symlink("d/build/l", "x").isExcluded)
        fixture.check()
    }

    @Test func ignoringNeverDeletes() throws {
        try fixture.directory("d")
        try fixture.file("d/a.log")
        let file = try fixture.confirm("d/a.log")
        try setRules("*.log\nd/", in: "")
        #expect(try fixture.found("d/a.log") == file)
        // A new item in a folder that is ignored by now is excluded, as in git.
        #expect(try fixture.file("d/b").isExcluded)
        fixture.check()
    }

    @Test func itemNoLongerIgnoredIsUploaded() throws {
        try setRules("build/\n*.log", in: "")
        try fixture.directory("build")
        try fixture.file("build/f")
        try fixture.file("build/f~")
        try fixture.file("a.log")
        try setRules("*.log", in: "")
        #expect(try fixture.found("build").dirty == .created)
        #expect(try fixture.found("build/f").dirty == [.created, .content])
        #expect(try fixture.found("build/f~").isExcluded && fixture.found("a.log").isExcluded)
        try setRules(nil, in: "")
        #expect(try fixture.found("a.log").dirty == [.created, .content])
        fixture.check()
    }

    /// At any depth, in folders that were in sync; also if the folder exchanges places with another.
    @Test(arguments: [false, true]) func itemMovedOutOfARuleIsUploaded(isExchange: Bool) throws {
        for folder in ["p", "p/s", "p/s/deep", "p/s/own", "other"] { try fixture.directory(folder) }
        try setRules("*.log", in: "p")
        try setRules("*.tmp", in: "p/s/own")
        for file in ["a.log", "deep/b.log", "own/c.tmp"] { #expect(try fixture.file("p/s/" + file).isExcluded) }
        if isExchange {
            try fixture.rename("other", "p/s", .exchanging)
        } else {
            try fixture.rename("p/s", "s")
        }
        let now = isExchange ? "other/" : "s/"
        for file in ["a.log", "deep/b.log"] { #expect(try !fixture.found(now + file).isExcluded, "\(file)") }
        #expect(try fixture.found(now + "own/c.tmp").isExcluded)
        fixture.check()
    }

    @Test func rulesOutliveTheProcess() throws {
        try setRules("*.log", in: "")
        let index = try fixture.reopened()
        let new = NewItem(kind: .symlink, mode: 0o777, uid: 0, gid: 0, linkTarget: [1])
        #expect(try index.create(in: 1, named: ItemName("a.log"), new).isExcluded)
        #expect(try index.foldersWithIgnoreFiles() == [.root])
    }

    @Test func changedStandardRulesIncludeItems() throws {
        let first = try fixture.file("a.log~")
        #expect(first.isExcluded)
        _ = try fixture.reopened()
        #expect(try fixture.found("a.log~").isExcluded)
        let index = try fixture.reopened(ignoring: IgnoreRules(["/sub/*.log"]))
        #expect(try index.row(ino: first.ino)?.dirty == [.created, .content])
        let folder = try index.create(in: 1, named: ItemName("sub"), NewItem(kind: .directory, mode: 0, uid: 0, gid: 0))
        let new = NewItem(kind: .symlink, mode: 0o777, uid: 0, gid: 0, linkTarget: [1])
        #expect(try index.create(in: folder.ino, named: ItemName("x.log"), new).isExcluded)
        #expect(try !index.create(in: 1, named: ItemName("x.log"), new).isExcluded)
    }

    @Test func ignoredFileRenamedToAnOrdinaryNameIsUploaded() throws {
        try setRules("*.part", in: "")
        try fixture.file("film.part")
        #expect(try fixture.rename("film.part", "film").moved.dirty == [.created, .content])
        try fixture.file("doc")
        let document = try fixture.confirm("doc")
        let part = try fixture.file("doc.part")
        let saved = try fixture.rename("doc.part", "doc").moved
        #expect(saved.id == document.id && saved.content == part.content && saved.dirty.contains(.content))
        fixture.check()
    }

    /// Like `ar`: a temporary file, renamed to the ignored name, with or without an old one there.
    @Test func unsentFileRenamedToAnIgnoredNameIsExcluded() throws {
        try setRules("*.a", in: "")
        for _ in 0..<2 {
            let temporary = try fixture.file("stABC")
            let made = try fixture.rename("stABC", "lib.a").moved
            #expect(made.isExcluded && made.content == temporary.content && made.dirty == [])
        }
        #expect(try fixture.index.read { try $0.children(of: .root, after: nil, limit: 9) }.count == 1)
        // An ignored name that was synced stays synced.
        try fixture.file("doc")
        let document = try fixture.confirm("doc")
        #expect(try fixture.rename("doc", "lib.a").moved.id == document.id)
        #expect(try !fixture.found("lib.a").isExcluded)
        fixture.check()
    }

    /// However it is saved: a synced document stays synced.
    @Test(arguments: [".goutputstream-ABC", "app.tmp"], [false, true])
    func syncedDocumentWithAnIgnoredNameIsSaved(_ temporary: String, _ isRemoved: Bool) throws {
        try fixture.file("app.log")
        let document = try fixture.confirm("app.log")
        try setRules("*.log", in: "")
        let new = try fixture.file(temporary)
        if isRemoved { try fixture.remove("app.log", process: 1) }
        let saved = try fixture.rename(temporary, "app.log", process: 1).moved
        #expect(saved.id == document.id && !saved.isExcluded && saved.content == new.content)
        #expect(saved.dirty.contains(.content) && !saved.isDeleted)
        fixture.check()
    }

    /// A power loss dropped the record of its creation, and the feed has brought it: the cloud has it.
    @Test func cloudItemStaysSyncedUnderAnIgnoredName() throws {
        try setRules("*.log", in: "")
        try fixture.file("new")
        let known = try fixture.confirm("new")
        try fixture.index.write(.remote) { transaction in
            var row = known
            try transaction.markDirty(&row, .created, now: fixture.time.now())
            try transaction.update(row, before: known)
        }
        #expect(try !fixture.rename("new", "new.log").moved.isExcluded)
        fixture.check()
    }

    @Test(arguments: [
        (".env", ".env", ".env 2.nosync"), ("build/", "build", "build 2.nosync"), ("*.log", "a.log", "a 2.log"),
        ("*~", "a~", "a 2~"),
    ]) func hardLinkToAnExcludedItemIsExcluded(_ rule: String, _ name: String, _ other: String) throws {
        try setRules(rule, in: "")
        let kind = rule.hasSuffix("/") ? ItemKind.directory : .file
        let found = try fixture.index.write(.local) { transaction in
            let folder = try #require(try transaction.row(key: .root))
            return try transaction.freeLocalName(near: ItemName(name), kind, in: folder)
        }
        #expect(found.description == other)
    }
}
