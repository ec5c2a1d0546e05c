import FoundationEssentials
import Testing
@testable import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

@MainActor private final class Log {
    var lines: [String] = []
}

/// Undo, recovery, formats, progress and file access of a document outside of containers.
@MainActor @Suite struct DocumentFeatureTests: DocumentTestCase {
    @Test("undo and redo count as changes; undoing to the saved state leaves nothing to save")
    func undo() async throws {
        try await opened { document, _ in
            let manager = DocumentUndoManager()
            document.undoManager = manager
            @MainActor func set(_ text: String) {
                let old = document.text
                document.text = text
                manager.registerUndo("Typing") { set(old) }
            }
            set("one")
            set("two")
            #expect(document.hasUnsavedChanges && manager.undoActionName == "Typing")
            manager.undo()
            #expect(document.text == "one" && manager.canUndo && manager.canRedo)
            try await document.autosave()
            manager.redo()
            #expect(document.text == "two" && document.hasUnsavedChanges)
            manager.undo()
            #expect(document.text == "one" && !document.hasUnsavedChanges)
            try await document.revert(toContentsOf: document.fileURL)
            #expect(!manager.canUndo && !manager.canRedo)
            manager.levelsOfUndo = 1
            set("three")
            set("four")
            manager.undo()
            #expect(!manager.canUndo && document.text == "three")
            try await document.close()
        }
    }

    @Test("a file access waits for the save before it, and the next save waits for the access")
    func access() async throws {
        try await opened { document, url in
            let log = Log()
            document.whileWriting = { log.lines.append("save") }
            document.type("1")
            let first = Task { try await document.autosave() }
            try await eventually { log.lines == ["save"] || !document.hasUnsavedChanges }
            try await document.performAsynchronousFileAccess {
                log.lines.append(String(decoding: try Data(contentsOf: url), as: UTF8.self))
            }
            try await first.value
            #expect(log.lines == ["save", "old1"])
            await #expect(throws: CancellationError.self) {
                try await document.performAsynchronousFileAccess { throw CancellationError() }
            }
            document.type("2")
            try await document.close()
            #expect(try text(url) == "old12")
        }
    }

    @Test("a class that writes itself gets the original of each save")
    func originals() async throws {
        final class Appender: Document {
            var line = "a"
            var originals: [String?] = []
            override func load(fromContents contents: Contents, ofType type: String?) throws {}
            override func contents(forType type: String?) throws -> Contents { .data(Data(line.utf8)) }
            override func writeContents(
                _ contents: Contents, to url: URL, for operation: SaveOperation, originalContentsURL: URL?
            ) async throws {
                originals.append(originalContentsURL?.lastPathComponent)
                guard case .data(var data) = contents else { return }
                if let originalContentsURL { data = try Data(contentsOf: originalContentsURL) + data }
                try data.write(to: url)
            }
        }
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/log.txt")
            let document = Appender(fileURL: url)
            try await document.save(to: url, for: .forCreating)
            document.line = "b"
            document.updateChangeCount(.done)
            try await document.close()
            #expect(document.originals == [nil, "log.txt"])
            #expect(try text(url) == "ab")
            #expect(try FileSystem.entries(of: folder).map(\.text) == ["log.txt"])
        }
    }

    @Test("DC-09: the recovery attempter chooses the way out, and hears when the document is closed meanwhile")
    func recovery() async throws {
        final class Chooser: DocumentRecoveryAttempter {
            var choice: DocumentRecoveryOption = .cancel
            var offered: [DocumentRecoveryOption] = []
            func recoveryOption(
                for error: any Error, options: [DocumentRecoveryOption], of document: Document,
                userInteractionPermitted: Bool
            ) async -> DocumentRecoveryOption {
                offered = options
                return choice
            }
        }
        final class Plain: Document {
            var text = ""
            var finished: [Bool] = []
            override func load(fromContents contents: Contents, ofType type: String?) throws {
                if case .data(let data) = contents { text = String(decoding: data, as: UTF8.self) }
            }
            override func contents(forType type: String?) throws -> Contents { .data(Data(text.utf8)) }
            override func finishedHandlingError(_ error: any Error, recovered: Bool) { finished.append(recovered) }
        }
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            let document = Plain(fileURL: url), chooser = Chooser()
            document.autosaveDelay = .seconds(1000)
            document.recoveryAttempter = chooser
            try await document.open()
            @MainActor func meet(_ choice: DocumentRecoveryOption) throws {
                try Data("theirs".utf8).write(to: url)
                document.text = "mine"
                document.updateChangeCount(.done)
                chooser.choice = choice
            }
            try meet(.cancel)
            await #expect(throws: UbiquitousFileError.self) { try await document.autosave() }
            #expect(chooser.offered == [.overwrite, .revert, .cancel] && document.finished == [false])
            try meet(.overwrite)
            try await document.autosave()
            #expect(try text(url) == "mine" && document.finished == [false, true])
            try meet(.revert)
            await #expect(throws: UbiquitousFileError.self) { try await document.autosave() }
            try await eventually { document.text == "theirs" }
            try await document.close()
        }
    }

    @Test("a close while a failure is being handled ends the question")
    func closingWhileAsking() async throws {
        final class Asking: Document {
            var text = "old"
            var dismiss: CheckedContinuation<Void, Never>?
            var isAsked = false
            override func load(fromContents contents: Contents, ofType type: String?) throws {}
            override func contents(forType type: String?) throws -> Contents { .data(Data(text.utf8)) }
            override func handleError(_ error: any Error, userInteractionPermitted: Bool) async -> Bool {
                guard userInteractionPermitted else { return true }
                isAsked = true
                await withCheckedContinuation { dismiss = $0 }
                return false
            }
            override func userInteractionNoLongerPermitted(forError error: any Error) {
                dismiss?.resume()
                dismiss = nil
            }
        }
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            let document = Asking(fileURL: url)
            document.autosaveDelay = .seconds(1000)
            try await document.open()
            try Data("theirs".utf8).write(to: url)
            document.text = "mine"
            document.updateChangeCount(.done)
            let save = Task { try await document.autosave() }
            try await eventually { document.dismiss != nil }
            try await document.close()
            await #expect(throws: UbiquitousFileError.self) { try await save.value }
            #expect(try text(url) == "mine" && document.documentState == .closed)
        }
    }

    @Test("LX-04: marks of a newer format allow reading and writing, reading alone, or nothing")
    func formats() async throws {
        final class Versioned: Document {
            var text = ""
            var mark = DocumentFormat(version: 1)
            var disabled = 0
            override var format: DocumentFormat? { mark }
            override func load(fromContents contents: Contents, ofType type: String?) throws {
                if case .data(let data) = contents { text = String(decoding: data, as: UTF8.self) }
            }
            override func contents(forType type: String?) throws -> Contents { .data(Data(text.utf8)) }
            override func disableEditing() { disabled += 1 }
        }
        #expect(DocumentFormat(marks: Array("3 2".utf8)) == nil && DocumentFormat(marks: []) == nil)
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            let newer = Versioned(fileURL: url)
            newer.text = "new"
            newer.mark = DocumentFormat(version: 3, oldestWriter: 2, oldestReader: 1)
            try await newer.save(to: url, for: .forCreating)
            try await newer.close()
            #expect(try DocumentFormat.read(url.path) == newer.mark)
            // An older program reads it and saves it elsewhere only.
            let older = Versioned(fileURL: url)
            older.autosaveDelay = .seconds(1000)
            try await older.open()
            #expect(older.isReadOnly && older.text == "new" && older.disabled == 1)
            #expect(older.documentState == .editingDisabled)
            older.text = "damaged"
            older.updateChangeCount(.done)
            await #expect { try await older.autosave() } throws: {
                ($0 as? UbiquitousFileError)?.code == .fileFormatTooNew
            }
            #expect(try text(url) == "new")
            let copy = URL(filePath: folder + "/copy.txt")
            try await older.save(to: copy, for: .forCreating)
            #expect(try text(copy) == "damaged" && DocumentFormat.read(copy.path) == older.mark && !older.isReadOnly)
            try await older.close()
            // A save by a version that may write keeps the newest marks it knows.
            let middle = Versioned(fileURL: url)
            middle.mark = DocumentFormat(version: 2)
            try await middle.open()
            #expect(!middle.isReadOnly)
            try await middle.close()
            try DocumentFormat(version: 9).write(to: url.path)
            let refused = Versioned(fileURL: url)
            await #expect { try await refused.open() } throws: {
                ($0 as? UbiquitousFileError)?.code == .fileFormatTooNew
            }
            #expect(refused.documentState == .closed)
        }
    }

    @Test("the progress of a document that needs no download is complete")
    func progress() async throws {
        try await opened { document, _ in
            #expect(document.progress.fractionCompleted == 1)
            document.progress.cancel()
            try await document.revert(toContentsOf: document.fileURL)
            #expect(document.progress.fractionCompleted == 1)
        }
    }
}
