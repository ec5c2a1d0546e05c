import FoundationEssentials
import Testing
import Ubiquity
import UbiquitySystem

/// Packages in memory and on the disk.
@Suite struct FileWrapperTests {
    @Test("only what changed is written, and what is gone is removed")
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

    @Test("a file that has been changed since is not taken for the one that was read")
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

    @Test("a snapshot stays as it was; kinds give way to each other; a bad name changes nothing")
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
}

/// A folder that is there for a test.
enum TemporaryFolder {
    static func with(
        isolation: isolated (any Actor)? = #isolation, _ body: (String) async throws -> Void
    ) async throws {
        let folder = "\(try FileSystem.realPath("/tmp"))/ubiquity-library-test.\(UInt64.random(in: 0 ... .max))"
        try FileSystem.makeDirectory(folder)
        defer { try? FileSystem.removeTree(folder) }
        try await body(folder)
    }
}
