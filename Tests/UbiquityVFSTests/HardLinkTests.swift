import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Files of several names.
struct HardLinkTests {
    private func link(_ container: TestContainer, _ ino: UInt64, _ name: String, in parent: UInt64 = 1) throws {
        _ = try container.fs.link(ino, newParent: parent, newName: Array(name.utf8)).immediate
    }

    private func unlink(_ container: TestContainer, _ name: String, in parent: UInt64 = 1) throws {
        try container.fs.unlink(parent: parent, name: Array(name.utf8)).immediate
    }

    private func check(_ container: TestContainer) throws {
        try container.index.read { try $0.checkInvariants() }
    }

    @Test func allNamesLeadToOneFile() async throws {
        let container = try TestContainer()
        let file = try container.create("a", "text")
        let folder = try container.makeDirectory("d")
        let before = try container.fs.attributes(of: file)
        try link(container, file, "b")
        try link(container, file, "c", in: folder)
        for (name, parent) in [("a", 1), ("b", 1), ("c", folder)] {
            let found = try #require(try container.lookup(name, in: parent))
            #expect(found.ino == file)
            #expect(found.links == 3)
            #expect(found.changedAt > before.changedAt)
            #expect(found.modifiedAt == before.modifiedAt)
        }
        #expect(try container.names() == ["a", "b", "d"])
        let handle = try await container.open(file, .readWrite)
        try container.write("more text", to: handle)
        container.fs.release(handle)
        let other = try #require(try container.lookup("c", in: folder))
        #expect(other.size == 9)
        #expect(try await container.content(of: other.ino) == "more text")
        try check(container)
    }

    @Test(arguments: [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"], ["a", "c", "b"]])
    func namesGoInAnyOrder(_ order: [String]) async throws {
        let container = try TestContainer()
        let file = try container.create("a", "text")
        try link(container, file, "b")
        try link(container, file, "c")
        for (position, name) in order.enumerated() {
            #expect(try container.fs.attributes(of: file).links == UInt32(3 - position))
            try unlink(container, name)
            #expect(try container.lookup(name) == nil)
            for left in order.dropFirst(position + 1) {
                #expect(try container.lookup(left)?.ino == file)
                #expect(try await container.content(of: file) == "text")
            }
            try check(container)
        }
        #expect(try container.names() == [])
        #expect(try container.fs.attributes(of: file).links == 0)
    }

    @Test func renamingOneNameLeavesTheOthers() async throws {
        let container = try TestContainer()
        let file = try container.create("a", "text")
        try link(container, file, "b")
        try container.rename("a", to: "x")
        try container.rename("b", to: "y")
        #expect(try container.names() == ["x", "y"])
        #expect(try container.lookup("x")?.ino == file)
        #expect(try container.lookup("y")?.ino == file)
        // Two names of one file: a rename does nothing.
        try container.rename("x", to: "y")
        #expect(try container.names() == ["x", "y"])
        try check(container)
    }

    @Test(arguments: ["a", "b"]) func replacedNameKeepsTheOthers(_ name: String) async throws {
        let container = try TestContainer()
        let file = try container.create("a", "old")
        try link(container, file, "b")
        let new = try container.create("new", "new")
        try container.rename("new", to: name)
        #expect(try container.lookup(name)?.ino == new)
        let other = try #require(try container.lookup(name == "a" ? "b" : "a"))
        #expect(other.ino == file)
        #expect(other.links == 1)
        #expect(try await container.content(of: new) == "new")
        #expect(try await container.content(of: file) == "old")
        try check(container)
    }

    @Test func linkReplacesAnotherFile() async throws {
        let container = try TestContainer()
        let file = try container.create("a", "one")
        try link(container, file, "b")
        try container.create("x", "two")
        try container.create("y", "three")
        try container.rename("a", to: "x")
        try container.rename("b", to: "y")
        #expect(try container.names() == ["x", "y"])
        #expect(try container.lookup("x")?.ino == file)
        #expect(try container.lookup("y")?.ino == file)
        #expect(try container.lookup("x")?.links == 2)
        try check(container)
    }

    @Test func symlinksAndSpecialFilesHaveSeveralNamesToo() throws {
        let container = try TestContainer()
        let symlink = try container.fs.makeSymlink(
            parent: 1, name: Array("s".utf8), target: Array("x".utf8), caller: container.caller).immediate
        let pipe = try container.fs.makeNode(
            parent: 1, name: Array("p".utf8), mode: 0o010600, caller: container.caller).immediate
        try link(container, symlink.ino, "s2")
        try link(container, pipe.ino, "p2")
        try unlink(container, "s")
        try unlink(container, "p")
        #expect(try container.lookup("s2")?.ino == symlink.ino)
        #expect(try container.fs.readLink(symlink.ino) == Array("x".utf8))
        #expect(try container.lookup("p2")?.mode == 0o010600)
        try check(container)
    }

    @Test func impossibleLinksAreRefused() throws {
        let container = try TestContainer()
        let folder = try container.makeDirectory("d")
        let local = try container.makeDirectory("l.nosync")
        let file = try container.create("a")
        #expect(errno { try link(container, folder, "x") } == .EPERM)
        #expect(errno { try link(container, file, "d") } == .EEXIST)
        #expect(errno { try link(container, file, "x", in: local) } == .EXDEV)
        #expect(errno { try link(container, try container.create("m", in: local), "x") } == .EXDEV)
        try link(container, file, "b")
        #expect(errno { try container.rename("b", to: "b", inFolder: local) } == .EXDEV)
        #expect(errno { try container.rename("a", to: "a", inFolder: local) } == .EXDEV)
        try check(container)
    }

    @Test func linkedTemporaryFileIsUploadedUnderItsName() async throws {
        let container = try TestContainer()
        let file = try container.create("doc.swp", "text")
        #expect(try container.index.row(ino: file)?.isExcluded == true)
        try link(container, file, "doc")
        #expect(try container.index.row(ino: file)?.isExcluded == false)
        #expect(try container.index.row(ino: file)?.entry?.name == ItemName("doc"))
        #expect(try container.lookup("doc.swp")?.ino == file)
        try unlink(container, "doc.swp")
        #expect(try container.lookup("doc")?.links == 1)
        try check(container)
    }

    /// A linked backup would keep the document's identity. A program that cannot link renames or copies instead.
    @Test func syncedFileGetsNoIgnoredName() throws {
        let container = try TestContainer()
        let file = try container.create("doc", "text")
        #expect(errno { try link(container, file, "doc~") } == .EXDEV)
        #expect(try container.lookup("doc~") == nil)
        try check(container)
    }
}
