import FoundationEssentials
import Testing
import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

/// A document alone: outside of containers it coordinates with nobody.
@MainActor @Suite struct DocumentTests: DocumentTestCase {
    @Test("DC-01: a document is created, saves itself, is closed and opened, and reports its states")
    func life() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            let document = TextDocument(fileURL: url)
            #expect(document.documentState == .closed && document.localizedName == "note" && document.fileType == "txt")
            await #expect(throws: UbiquitousFileError.self) { try await document.open() }
            document.text = "first"
            try await document.save(to: url, for: .forCreating)
            #expect(document.documentState == .normal)
            document.autosaveDelay = .milliseconds(1)
            document.type(" second")
            #expect(document.hasUnsavedChanges)
            try await eventually { !document.hasUnsavedChanges }
            #expect(try text(url) == "first second")
            try await document.close()
            #expect(document.documentState == .closed)
            let again = TextDocument(fileURL: url)
            var states = again.states.makeAsyncIterator()
            #expect(await states.next() == .closed)
            try await again.open()
            #expect(await states.next() == [.closed, .progressAvailable])
            #expect(again.text == "first second" && again.fileModificationDate != nil)
            try await again.close()
        }
    }

    @Test("DC-06, DC-07: only a requested save writes; it writes a snapshot while the user types")
    func snapshots() async throws {
        try await opened { document, url in
            document.type(" A")
            #expect(try text(url) == "old")
            document.whileWriting = { document.type(" B") }
            try await document.autosave()
            #expect(try text(url) == "old A")
            #expect(document.hasUnsavedChanges, "text typed meanwhile is not in the snapshot")
            document.whileWriting = nil
            try await document.close()
            #expect(try text(url) == "old A B")
        }
    }

    @Test("DC-08: a save replaces the whole file, with its permissions, and writes files beside it")
    func safeSaves() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            try FileSystem.setPermissions(folder + "/note.txt", 0o640)
            let old = try FileDescriptor.open(folder + "/note.txt", .readOnly)
            let document = TextDocument(fileURL: url)
            try await document.open()
            document.hasPreview = true
            document.type(" new")
            try await document.close()
            #expect(try old.read(count: 10, at: 0) == Array("old".utf8), "who has the old one open reads it on")
            #expect(try text(url) == "old new")
            #expect(try FileSystem.status(folder + "/note.txt").permissions == 0o640)
            let names = try FileSystem.entries(of: folder).map { String(decoding: $0.name, as: UTF8.self) }
            #expect(names.sorted() == ["note.preview", "note.txt"])
        }
    }

    @Test("DC-09: a failure is reported, shows in the state and is retried; nothing is lost")
    func errors() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/in/note.txt")
            try FileSystem.makeDirectory(folder + "/in")
            try Data("old".utf8).write(to: url)
            let document = TextDocument(fileURL: url)
            document.autosaveDelay = .seconds(1000)
            try await document.open()
            document.type(" new")
            try FileSystem.rename(folder + "/in", to: folder + "/away")
            await #expect(throws: UbiquitousFileError.self) { try await document.autosave() }
            #expect(document.documentState == .savingError && document.hasUnsavedChanges)
            await #expect(throws: UbiquitousFileError.self) { try await document.close() }
            #expect(document.handled == [true, false], "nobody is asked while it is being closed")
            #expect(document.documentState == .savingError && document.lastError != nil)
            // The handler of the error removes its cause: then the document retries at once.
            document.recovery = { try? FileSystem.rename(folder + "/away", to: folder + "/in") }
            try await document.close()
            #expect(document.documentState == .closed && document.lastError == nil)
            #expect(try text(url) == "old new")
        }
    }

    @Test("another program's change is not overwritten silently; revert discards own changes")
    func changedByOther() async throws {
        try await opened { document, url in
            document.type(" mine")
            try Data("theirs!".utf8).write(to: url)
            await #expect { try await document.autosave() } throws: {
                ($0 as? UbiquitousFileError)?.code == .fileChangedByOther
            }
            #expect(try text(url) == "theirs!")
            try await document.revert(toContentsOf: url)
            #expect(document.text == "theirs!" && !document.hasUnsavedChanges)
            document.type(" mine")
            try Data("theirs again".utf8).write(to: url)
            document.recovery = {}
            try await document.autosave()
            #expect(try text(url) == "theirs! mine")
            try await document.close()
        }
    }

    @Test("overlapping saves run one after the other, and all end", .timeLimit(.minutes(1)))
    func overlappingSaves() async throws {
        try await TemporaryFolder.with { folder in
            let document = TextDocument(fileURL: URL(filePath: folder + "/note.txt"))
            document.autosaveDelay = .seconds(1000)
            try await document.save(to: document.fileURL, for: .forCreating)
            for round in 1...20 {
                document.type(" \(round)")
                async let first: Void = document.autosave()
                async let second: Void = document.autosave()
                async let third: Void = document.autosave()
                async let fourth: Void = document.save(to: document.fileURL, for: .forOverwriting)
                _ = try await (first, second, third, fourth)
                #expect(try !document.hasUnsavedChanges && text(document.fileURL) == document.text)
            }
            #expect(document.writesAtOnce == 1)
            try await document.close()
        }
    }

    @Test("changes typed during a close are saved")
    func typingWhileClosing() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            let document = TextDocument(fileURL: url)
            document.autosaveDelay = .seconds(1000)
            try await document.save(to: url, for: .forCreating)
            document.type("A")
            document.whileWriting = {
                document.whileWriting = nil
                document.type("B")
            }
            try await document.close()
            #expect(try text(url) == "AB" && !document.hasUnsavedChanges)
            try await document.open()
            // A save that never finishes keeps the document open and reports it.
            document.whileWriting = { document.type("C") }
            document.type("C")
            await #expect(throws: UbiquitousFileError.self) { try await document.close() }
            #expect(!document.documentState.contains(.closed))
            document.whileWriting = nil
            try await document.close()
            #expect(try text(url) == document.text)
        }
    }

    @Test("changes typed right after a reload stay; two opens at once open once")
    func typingAfterReading() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            let document = TextDocument(fileURL: url)
            document.autosaveDelay = .seconds(1000)
            async let first: Void = document.open()
            async let second: Void = document.open()
            _ = try await (first, second)
            #expect(document.loads == 1)
            document.type(" lost")
            document.afterLoading = { Task { document.type(" kept") } }
            try await document.revert(toContentsOf: url)
            document.afterLoading = nil
            try await eventually { document.text == "old kept" }
            #expect(document.hasUnsavedChanges)
            try await document.close()
            #expect(try text(url) == "old kept")
        }
    }

    @Test("a package moved by another program is read and saved at its new place")
    func movedPackage() async throws {
        try await TemporaryFolder.with { folder in
            let old = URL(filePath: folder + "/old"), new = URL(filePath: folder + "/new")
            func file(_ text: String) -> FileWrapper { FileWrapper(regularFileWithContents: Data(text.utf8)) }
            try await FileWrapper(directoryWithFileWrappers: ["x": file("x"), "y": file("y")]).write(to: old)
            let document = PackageDocument(fileURL: old)
            document.autosaveDelay = .seconds(1000)
            try await document.open()
            try FileSystem.rename(folder + "/old", to: folder + "/new")
            await document.presentedItemDidMove(to: new)
            #expect(try await document.tree?.fileWrappers?["x"]?.regularFileContents() == Data("x".utf8))
            document.tree?.setRegularFile(withContents: Data("new".utf8), named: "z")
            document.updateChangeCount(.done)
            try await document.close()
            #expect(try await FileWrapper(url: new).fileWrappers?.keys.sorted() == ["x", "y", "z"])
            #expect(try FileSystem.entries(of: folder).count == 1)
        }
    }

    @Test("an undone change does not count; a new one in its place does")
    func changeCount() {
        let document = TextDocument(fileURL: URL(filePath: "/none"))
        document.updateChangeCount(.done)
        let token = document.changeCountToken(for: .forOverwriting)
        document.updateChangeCount(.undone)
        #expect(!document.hasUnsavedChanges)
        document.updateChangeCount(.redone)
        document.updateChangeCount(withToken: token, for: .forOverwriting)
        #expect(!document.hasUnsavedChanges)
        document.updateChangeCount(.undone)
        document.updateChangeCount(.done)
        #expect(document.hasUnsavedChanges)
        document.updateChangeCount(.cleared)
        #expect(!document.hasUnsavedChanges)
    }
}

@MainActor
final class TextDocument: Document {
    var text = ""
    var hasPreview = false
    var handled: [Bool] = []
    var recovery: (() -> Void)?
    var whileWriting: (() -> Void)?
    var afterLoading: (() -> Void)?
    /// Called while the document waits for a read.
    var beforeReading: (() -> Void)?
    /// Calls that disabled editing, less those that enabled it again.
    var disabled = 0
    var loads = 0
    /// The largest number of concurrent writes.
    var writesAtOnce = 0
    private var writing = 0

    func type(_ more: String) {
        text += more
        updateChangeCount(.done)
    }

    override func load(fromContents contents: Contents, ofType type: String?) throws {
        if case .data(let data) = contents { text = String(decoding: data, as: UTF8.self) }
        loads += 1
        afterLoading?()
    }

    override func read(from url: URL) async throws {
        beforeReading?()
        try await super.read(from: url)
    }

    override func disableEditing() { disabled += 1 }
    override func enableEditing() { disabled -= 1 }

    override func contents(forType type: String?) throws -> Contents { .data(Data(text.utf8)) }

    override func writeContents(_ contents: Contents, safelyTo url: URL, for operation: SaveOperation) async throws {
        writing += 1
        writesAtOnce = max(writesAtOnce, writing)
        defer { writing -= 1 }
        whileWriting?()
        try await super.writeContents(contents, safelyTo: url, for: operation)
        guard hasPreview else { return }
        try Data("preview".utf8).write(to: url.deletingPathExtension().appendingPathExtension("preview"))
    }

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool {
        handled.append(userInteractionPermitted)
        recovery?()
        return recovery != nil
    }
}

@MainActor
private final class PackageDocument: Document {
    var tree: FileWrapper?

    override func load(fromContents contents: Contents, ofType type: String?) throws {
        if case .package(let tree) = contents { self.tree = tree }
    }

    override func contents(forType type: String?) throws -> Contents {
        .package(tree ?? FileWrapper(directoryWithFileWrappers: [:]))
    }
}
