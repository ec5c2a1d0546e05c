import FoundationEssentials
import Testing
import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

/// Packages in memory and on the disk.
@Suite struct FileWrapperTests {
    @Test("only changed files are written, and missing ones are removed")
    func writesOnlyWhatChanged() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.package")
            let new = FileWrapper(directoryWithFileWrappers: [
                "text": FileWrapper(regularFileWithContents: Data("one".utf8)),
                "images": FileWrapper(directoryWithFileWrappers: [
                    "a": FileWrapper(regularFileWithContents: Data("a".utf8)),
                    "link": FileWrapper(symbolicLinkWithDestination: "a"),
                ]),
            ])
            try await new.write(to: url)
            func inode(_ name: String) throws -> UInt64 { try FileSystem.status("\(folder)/note.package/\(name)").inode }
            let before = try ["text", "images/a", "images/link"].map(inode)
            let read = try await FileWrapper(url: url)
            #expect(try await read.matchesContents(of: url))
            read.setRegularFile(withContents: Data("two".utf8), named: "text")
            let images = try #require(read.fileWrappers?["images"])
            #expect(images.addRegularFile(withContents: Data("b".utf8), preferredFilename: "a") == "a 2")
            #expect(images.fileWrappers?["link"]?.symbolicLinkDestination == "a")
            images.removeFileWrapper(named: "link")
            #expect(try await !read.matchesContents(of: url))
            try await read.write(to: url)
            #expect(try inode("images/a") == before[1])
            #expect(try inode("text") != before[0])
            #expect(throws: Errno.ENOENT) { try inode("images/link") }
            let names = try FileSystem.entries(of: folder + "/note.package").map { String(decoding: $0.name, as: UTF8.self) }
            #expect(names.sorted() == ["images", "text"])
            let text = try #require(try await FileWrapper(url: url, options: .immediate).fileWrappers?["text"])
            #expect(try await text.regularFileContents() == Data("two".utf8))
        }
    }

    @Test("a file changed since the read is not taken for the one that was read")
    func changedMeanwhile() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/f")
            try Data("old".utf8).write(to: url)
            let wrapper = try await FileWrapper(url: url)
            try Data("newer".utf8).write(to: url)
            await #expect(throws: UbiquitousFileError.self) { try await wrapper.regularFileContents() }
            #expect(try await !wrapper.matchesContents(of: url))
        }
    }

    @Test("a snapshot never changes; kinds replace each other; a bad name changes nothing")
    func snapshots() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/p")
            let tree = FileWrapper(directoryWithFileWrappers: ["x": FileWrapper(regularFileWithContents: Data("x".utf8))])
            try await tree.write(to: url)
            let snapshot = tree.snapshot()
            tree.removeFileWrapper(named: "x")
            #expect(snapshot.fileWrappers?.keys.sorted() == ["x"])
            tree.addFileWrapper(FileWrapper(directoryWithFileWrappers: [:], preferredFilename: "x"))
            try await tree.write(to: url)
            #expect(try FileSystem.status(folder + "/p/x").isDirectory)
            try await snapshot.write(to: url)
            #expect(try FileSystem.status(folder + "/p/x").isFile)
            let bad = FileWrapper(directoryWithFileWrappers: [
                "a": FileWrapper(regularFileWithContents: Data()), "b/c": FileWrapper(regularFileWithContents: Data()),
            ])
            await #expect(throws: UbiquitousFileError.self) { try await bad.write(to: url) }
            #expect(try FileSystem.entries(of: folder + "/p").count == 1)
        }
    }

    @Test("an unread package is written to its new place, also with renamed members")
    func moved() async throws {
        try await TemporaryFolder.with { folder in
            let old = URL(filePath: folder + "/old"), new = URL(filePath: folder + "/new")
            func file(_ text: String) -> FileWrapper { FileWrapper(regularFileWithContents: Data(text.utf8)) }
            let images = FileWrapper(directoryWithFileWrappers: ["a": file("image")])
            try await FileWrapper(directoryWithFileWrappers: ["x": file("x"), "y": file("y"), "images": images]).write(to: old)
            let tree = try await FileWrapper(url: old)
            let x = try #require(tree.fileWrappers?["x"])
            tree.removeFileWrapper(x)
            x.preferredFilename = "z"
            tree.addFileWrapper(x)
            tree.setRegularFile(withContents: Data("changed".utf8), named: "y")
            let image = try FileSystem.status(folder + "/old/images/a").inode
            try FileSystem.rename(folder + "/old", to: folder + "/new")
            try await tree.write(to: new)
            #expect(try FileSystem.status(folder + "/new/images/a").inode == image)
            let read = try await FileWrapper(url: new, options: .immediate)
            #expect(read.fileWrappers?.keys.sorted() == ["images", "y", "z"])
            #expect(try await read.fileWrappers?["z"]?.regularFileContents() == Data("x".utf8))
            // From now on its place is the new one.
            let again = try #require(tree.fileWrappers?["images"]?.fileWrappers?["a"])
            #expect(try await again.regularFileContents() == Data("image".utf8))
        }
    }

    @Test("names that are equal as text, or not text, are refused before anything changes")
    func names() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/p")
            func refused(_ body: () async throws -> Void) async {
                await #expect { try await body() } throws: { ($0 as? UbiquitousFileError)?.code == .featureUnsupported }
            }
            let tree = FileWrapper(directoryWithFileWrappers: ["caf\u{e9}": FileWrapper(regularFileWithContents: Data("one".utf8))])
            try await tree.write(to: url)
            try Data("two".utf8).write(to: URL(filePath: folder + "/two"))
            try FileSystem.rename(folder + "/two", to: Array("\(folder)/p/cafe\u{301}".utf8))
            await refused { _ = try await FileWrapper(url: url) }
            #expect(try await !tree.matchesContents(of: url))
            // A write removes the entries that are not in the tree, and only those.
            try await tree.write(to: url)
            #expect(try FileSystem.entries(of: folder + "/p").map(\.name) == [Array("caf\u{e9}".utf8)])
            try FileSystem.makeDirectory(Array("\(folder)/p/".utf8) + [0xff])
            await refused { _ = try await FileWrapper(url: url) }
            tree.setRegularFile(withContents: Data("three".utf8), named: "new")
            await refused { try await tree.write(to: url) }
            #expect(try FileSystem.entries(of: folder + "/p").count == 2)
        }
    }

    @Test("when kinds swap places, a failed write keeps the old item")
    func kindsChangePlaces() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/p")
            let file = FileWrapper(regularFileWithContents: Data("old".utf8))
            try await FileWrapper(directoryWithFileWrappers: ["x": file]).write(to: url)
            // Only the write itself meets a link text that is too long, as with a full disk.
            let inner = FileWrapper(directoryWithFileWrappers: ["fine": FileWrapper(regularFileWithContents: Data("new".utf8))])
            inner.addRegularFile(withContents: Data(), preferredFilename: "sub")
            let deep = FileWrapper(directoryWithFileWrappers: [:])
            let tree = FileWrapper(directoryWithFileWrappers: ["x": inner])
            inner.addFileWrapper(deep)
            deep.addFileWrapper(FileWrapper(symbolicLinkWithDestination: String(repeating: "t", count: 5000)))
            await #expect(throws: UbiquitousFileError.self) { try await tree.write(to: url) }
            #expect(try Data(contentsOf: URL(filePath: folder + "/p/x")) == Data("old".utf8))
            #expect(try FileSystem.entries(of: folder + "/p").count == 1, "nothing is left aside")
            inner.removeFileWrapper(deep)
            try await tree.write(to: url)
            #expect(try await FileWrapper(url: url).fileWrappers?["x"]?.fileWrappers?.keys.sorted() == ["fine", "sub"])
            #expect(try await tree.matchesContents(of: url))
            try await FileWrapper(directoryWithFileWrappers: ["x": file]).write(to: url)
            #expect(try FileSystem.entries(of: folder + "/p").count == 1)
            #expect(try FileSystem.status(folder + "/p/x").isFile)
        }
    }

    @Test("a file under another name is renamed, also out of a removed folder; a copy always exists")
    func renames() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/p")
            func file(_ text: String) -> FileWrapper { FileWrapper(regularFileWithContents: Data(text.utf8)) }
            func inode(_ name: String) throws -> UInt64 { try FileSystem.status("\(folder)/p/\(name)").inode }
            let images = FileWrapper(directoryWithFileWrappers: ["a": file("a"), "z": file("z"), "gone": file("gone")])
            let tree = FileWrapper(directoryWithFileWrappers: ["images": images, "x": file("x"), "y": file("y")])
            try await tree.write(to: url)
            let read = try await FileWrapper(url: url)
            let old = try #require(read.fileWrappers), inner = try #require(old["images"]?.fileWrappers)
            let before = try ["images/a", "images/z", "x"].map(inode)
            // A file replaces a folder, whose files move beside it; two files exchange their names.
            let new = FileWrapper(directoryWithFileWrappers: [
                "a": try #require(inner["a"]), "images": file("no folder any more"), "q": try #require(inner["z"]),
            ])
            for (name, wrapper) in ["renamed": old["x"], "copied": old["x"], "y": old["y"]] {
                wrapper?.preferredFilename = name
                if let wrapper { new.addFileWrapper(wrapper) }
            }
            try await read.replaceMembers(new).write(to: url)
            let after = try await FileWrapper(url: url, options: .immediate)
            #expect(after.fileWrappers?.keys.sorted() == ["a", "copied", "images", "q", "renamed", "y"])
            #expect(try [inode("a"), inode("q")] == Array(before.prefix(2)))
            #expect(try Set([inode("renamed"), inode("copied")]).contains(before[2]))
            for (name, text) in ["a": "a", "q": "z", "renamed": "x", "copied": "x", "y": "y"] {
                #expect(try await after.fileWrappers?[name]?.regularFileContents() == Data(text.utf8), "\(name)")
            }
            #expect(try FileSystem.entries(of: folder + "/p").count == 6, "nothing is left aside")
        }
    }

    @Test("files that swap names are written again, and removals come last")
    func exchangedNames() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/p")
            func file(_ text: String) -> FileWrapper { FileWrapper(regularFileWithContents: Data(text.utf8)) }
            try await FileWrapper(directoryWithFileWrappers: ["x": file("1"), "y": file("2"), "z": file("3")]).write(to: url)
            let read = try await FileWrapper(url: url)
            let (x, y) = (try #require(read.fileWrappers?["x"]), try #require(read.fileWrappers?["y"]))
            for name in ["x", "y", "z"] { read.removeFileWrapper(named: name) }
            (x.preferredFilename, y.preferredFilename) = ("y", "x")
            read.addFileWrapper(x)
            read.addFileWrapper(y)
            try await read.write(to: url)
            let after = try #require(try await FileWrapper(url: url, options: .immediate).fileWrappers)
            #expect(after.keys.sorted() == ["x", "y"])
            #expect(try await after["x"]?.regularFileContents() == Data("2".utf8))
            #expect(try await after["y"]?.regularFileContents() == Data("1".utf8))
        }
    }
}

extension FileWrapper {
    /// The same folder with other members.
    fileprivate func replaceMembers(_ other: FileWrapper) -> FileWrapper {
        for name in fileWrappers.map({ Array($0.keys) }) ?? [] { removeFileWrapper(named: name) }
        for (name, wrapper) in other.fileWrappers ?? [:] {
            wrapper.preferredFilename = name
            addFileWrapper(wrapper)
        }
        return self
    }
}
