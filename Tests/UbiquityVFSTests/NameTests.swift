import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

@Suite struct NameTests {
    @Test func namesAreChecked() throws {
        let container = try TestContainer()
        let fs = container.fs
        func make(_ name: [UInt8]) throws {
            _ = try fs.makeDirectory(parent: 1, name: name, mode: 0o755, caller: container.caller).immediate
        }
        #expect(errno { try make([0xff]) } == .EILSEQ)
        #expect(errno { try make([UInt8](repeating: 97, count: 256)) } == .ENAMETOOLONG)
        #expect(errno { try make([UInt8](repeating: 97, count: 255)) } == nil)
        #expect(errno { try make(Array(".versions".utf8)) } == .EPERM)
        #expect(errno { try container.create(".versions") } == .EPERM)
        #expect(errno { try container.rename("x", to: ".versions") } == .EPERM)
        #expect(try container.lookup(".versions")?.isDirectory == true)
        #expect(try container.names().contains(".versions") == false)
        #expect(errno { _ = try fs.lookup(parent: 1, name: [0xff]).immediate } == .EILSEQ)
    }

    @Test func equalLookingNamesAreTwo() throws {
        let container = try TestContainer()
        let composed = try container.create("caf\u{e9}")
        let decomposed = try container.create("cafe\u{301}")
        #expect(composed != decomposed)
        #expect(try container.names().count == 2)
    }

    @Test func directoriesCountTheirDirectories() throws {
        let container = try TestContainer()
        let a = try container.makeDirectory("a")
        try container.makeDirectory("b", in: a)
        #expect(try container.fs.attributes(of: a).links == 3)
        try container.create("file", in: a)
        #expect(try container.fs.attributes(of: a).links == 3)
        try container.rename("b", in: a, to: "b")
        #expect(try container.fs.attributes(of: a).links == 2)
        #expect(try container.fs.attributes(of: 1).links == 4)
        try container.fs.removeDirectory(parent: 1, name: Array("b".utf8)).immediate
        #expect(try container.fs.attributes(of: 1).links == 3)
    }

    @Test func removingNeedsTheRightKind() throws {
        let container = try TestContainer()
        let directory = try container.makeDirectory("d")
        try container.create("f", in: directory)
        #expect(errno { try container.unlink("d") } == .EISDIR)
        #expect(errno { try container.fs.removeDirectory(parent: 1, name: Array("d".utf8)).immediate } == .ENOTEMPTY)
        #expect(errno { try container.fs.removeDirectory(parent: directory, name: Array("f".utf8)).immediate } == .ENOTDIR)
        #expect(errno { try container.unlink("none") } == .ENOENT)
        // The kernel looks the name up again, and asks for permission to open.
        #expect(errno { _ = try container.create("f", in: directory) } == .ESTALE)
        #expect(errno { _ = try container.makeDirectory("f", in: directory) } == .EEXIST)
        #expect(errno { _ = try container.lookup("x", in: 99_999_999) } == .ESTALE)
    }

    @Test func renameKeepsItsPromises() async throws {
        let container = try TestContainer()
        let a = try container.create("a", "A")
        let b = try container.create("b", "B")
        #expect(errno { try container.rename("a", to: "b", flags: 1) } == .EEXIST)
        try container.rename("a", to: "b", flags: 2)
        #expect(try container.lookup("a")?.ino == b)
        #expect(try container.lookup("b")?.ino == a)
        #expect(errno { try container.rename("a", to: "b", flags: 3) } == .EINVAL)
        #expect(errno { try container.rename("a", to: "none", flags: 2) } == .ENOENT)
        let directory = try container.makeDirectory("d")
        #expect(errno { try container.rename("a", to: "d") } == .EISDIR)
        #expect(errno { try container.rename("d", to: "a") } == .ENOTDIR)
        #expect(errno { try container.rename("d", to: "d", inFolder: directory) } == .EINVAL)
        try container.rename("a", to: "a", inFolder: directory)
        #expect(try container.names(in: directory) == ["a"])
        #expect(try await container.content(of: b) == "B")
        try container.rename("b", to: "b")
        #expect(try container.names() == ["b", "d"])
    }

    @Test func openWriterMayBeRenamedOverAnother() async throws {
        let container = try TestContainer()
        try container.create("document", "old")
        let target = try #require(try container.lookup("document"))
        let made = try container.fs.create(
            parent: 1, name: Array("temporary".utf8), mode: 0o600, flags: [.writeOnly, .create],
            caller: container.caller).immediate
        try container.write("half", to: made.opened.handle)
        try container.rename("temporary", to: "document")
        try container.write(" and half", to: made.opened.handle, at: 4)
        container.fs.release(made.opened.handle)
        let found = try #require(try container.lookup("document"))
        #expect(found.ino == made.attributes.ino)
        #expect(found.ino != target.ino)
        #expect(try await container.content(of: found.ino) == "half and half")
        #expect(try container.index.row(ino: found.ino)?.size == 13)
    }

    @Test func linksHaveTheirText() throws {
        let container = try TestContainer()
        let link = try container.fs.makeSymlink(
            parent: 1, name: Array("l".utf8), target: Array("../x".utf8), caller: container.caller).immediate
        #expect(try container.fs.readLink(link.ino) == Array("../x".utf8))
        #expect(link.size == 4)
        #expect(link.mode == 0o120777)
        #expect(errno { _ = try container.fs.readLink(1) } == .EINVAL)
    }

    @Test func newItemsBelongToTheCallerOrTheGroupOfTheFolder() async throws {
        let container = try TestContainer()
        let directory = try container.makeDirectory("d")
        _ = try await container.set(directory, AttributeChanges(mode: 0o2775, gid: 77))
        _ = try await container.set(directory, AttributeChanges(mode: 0o2775))
        let file = try container.create("f", in: directory)
        #expect(try container.fs.attributes(of: file).gid == 77)
        let inner = try container.makeDirectory("i", in: directory)
        #expect(try container.fs.attributes(of: inner).permissions == 0o2755)
    }

    @Test func specialFilesStayHere() throws {
        let container = try TestContainer()
        let kinds: [(UInt32, UInt32)] = [(0o010000, 0), (0o140000, 0), (0o020000, 0x0103), (0o060000, 0x1234_5678)]
        for (position, (type, device)) in kinds.enumerated() {
            let before = try container.fs.attributes(of: 1).modifiedAt
            let made = try container.fs.makeNode(
                parent: 1, name: Array("n\(position)".utf8), mode: type | 0o640, device: device, caller: container.caller).immediate
            let found = try #require(try container.lookup("n\(position)"))
            #expect(found == made)
            #expect(found.mode == type | 0o640)
            #expect(found.device == device)
            #expect(found.size == 0)
            #expect(found.links == 1)
            #expect(try container.index.row(ino: found.ino)?.isExcluded == true)
            #expect(try container.fs.attributes(of: 1).modifiedAt > before)
        }
        try container.rename("n0", to: "other name")
        let pipe = try #require(try container.lookup("other name"))
        #expect(try container.index.row(ino: pipe.ino)?.isExcluded == true)
        #expect(try container.index.read { try $0.dirtyCount() } == 0)
        try container.fs.unlink(parent: 1, name: Array("other name".utf8)).immediate
        #expect(try container.lookup("other name") == nil)
    }

    @Test func specialFileReplacesADocument() throws {
        let container = try TestContainer()
        try container.create("f", "text")
        _ = try container.fs.makeNode(
            parent: 1, name: Array("p".utf8), mode: 0o010600, caller: container.caller).immediate
        try container.rename("p", to: "f")
        #expect(try container.lookup("f")?.mode == 0o010600)
        try container.create("g", "text")
        try container.rename("g", to: "f")
        let file = try #require(try container.lookup("f"))
        #expect(file.mode == 0o100644)
        #expect(try container.index.row(ino: file.ino)?.isExcluded == false)
    }

    @Test func nodesMayBeFilesAndNothingElse() throws {
        let container = try TestContainer()
        let name = Array("n".utf8)
        let made = try container.fs.makeNode(parent: 1, name: name, mode: 0o100644, caller: container.caller).immediate
        #expect(try container.lookup("n")?.ino == made.ino)
        #expect(
            errno {
                _ = try container.fs.makeNode(
                    parent: 1, name: Array("d".utf8), mode: 0o040755, caller: container.caller).immediate
            } == .EPERM)
    }
}
