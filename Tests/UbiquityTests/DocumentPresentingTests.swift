import FoundationEssentials
import Testing
@testable import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

/// Answers of a document to questions and notifications, outside of containers.
@MainActor @Suite struct DocumentPresentingTests: DocumentTestCase {
    @Test("DC-04: unsaved changes are saved before a deletion and stay in the document if the file is deleted anyway")
    func deletion() async throws {
        try await opened { document, url in
            document.type(" mine")
            try await document.relinquishPresentedItemToWriter()
            try await document.accommodatePresentedItemDeletion()
            #expect(try text(url) == "old mine" && !document.documentState.contains(.closed))
            // The edit has won: editing continues.
            await document.reacquirePresentedItem()
            try await eventually { !document.presence.awaitsDeletion }
            #expect(document.documentState == .normal && document.handled.isEmpty)
            document.type(" more")
            try await document.relinquishPresentedItemToWriter()
            try await document.accommodatePresentedItemDeletion()
            try FileSystem.unlink(url.path)
            await document.reacquirePresentedItem()
            try await eventually { document.handled == [true] }
            #expect(document.documentState == .savingError && document.hasUnsavedChanges)
            #expect((document.lastError as? UbiquitousFileError)?.code == .fileNoSuchFile)
            await #expect(throws: UbiquitousFileError.self) { try await document.close() }
            let other = url.deletingLastPathComponent().appending(path: "kept.txt")
            try await document.save(to: other, for: .forCreating)
            #expect(document.documentState == .normal)
            try await document.close()
            #expect(try text(other) == "old mine more")
        }
    }

    @Test("a file deleted without a save is restored on request, or discarded")
    func deletionByPrograms() async throws {
        try await opened { document, url in
            @MainActor func delete() async throws {
                document.type(" mine")
                try await document.relinquishPresentedItemToWriter()
                try await document.accommodateDeletion(canSave: false)
                try FileSystem.unlink(url.path)
                await document.reacquirePresentedItem()
            }
            document.recovery = {}
            try await delete()
            try await eventually { !document.hasUnsavedChanges }
            #expect(try text(url) == "old mine" && document.documentState == .normal)
            document.recovery = nil
            try await delete()
            try await eventually { document.documentState == .savingError }
            document.updateChangeCount(.cleared)
            try await document.close()
            #expect(document.documentState == .closed && document.disabled == 0)
        }
    }

    @Test("a failed save cancels the deletion; without changes the document closes")
    func deletionThatFails() async throws {
        try await opened { document, url in
            document.type(" mine")
            let folder = url.deletingLastPathComponent().path
            try FileSystem.rename(folder, to: folder + "-away")
            await #expect(throws: UbiquitousFileError.self) { try await document.accommodatePresentedItemDeletion() }
            #expect(document.documentState == .savingError && document.hasUnsavedChanges && document.handled == [true])
            try FileSystem.rename(folder + "-away", to: folder)
            try await document.autosave()
            // After a cancelled deletion the document stays open; after a completed one it closes.
            for isGone in [false, true] {
                try await document.relinquishPresentedItemToWriter()
                try await document.accommodatePresentedItemDeletion()
                #expect(!document.documentState.contains(.closed))
                if isGone { try FileSystem.unlink(url.path) }
                await document.reacquirePresentedItem()
                try await eventually { document.presence.changeLook == nil }
                #expect(document.documentState == (isGone ? .closed : .normal))
            }
            #expect(document.handled == [true])
        }
    }

    @Test("changes typed before a reload stay, and the next save finds the other program's change")
    func typingBeforeReading() async throws {
        try await opened { document, url in
            try Data("theirs!".utf8).write(to: url)
            document.beforeReading = {
                document.beforeReading = nil
                document.type(" mine")
            }
            await document.presentedItemDidChange()
            try await eventually { document.beforeReading == nil && document.presence.changeLook == nil }
            #expect(document.text == "old mine" && document.hasUnsavedChanges && document.handled.isEmpty)
            await #expect { try await document.autosave() } throws: {
                ($0 as? UbiquitousFileError)?.code == .fileChangedByOther
            }
            // Reverting discards the typed text.
            document.beforeReading = { document.type(" given up") }
            try await document.revert(toContentsOf: url)
            #expect(document.text == "theirs!" && !document.hasUnsavedChanges)
        }
    }

    @Test("a change check delays no request, and one check covers all notifications")
    func looks() async throws {
        try await opened { document, url in
            for _ in 0..<1000 { await document.presentedItemDidChange() }
            #expect(document.presence.changeLook != nil)
            document.type(" mine")
            try await document.savePresentedItemChanges()
            #expect(try text(url) == "old mine" && document.presence.changeLook != nil)
            try await eventually { document.presence.changeLook == nil }
            #expect(document.loads == 1)
            try Data("theirs!".utf8).write(to: url)
            await document.presentedItemDidChange()
            try await eventually { document.text == "theirs!" }
            #expect(document.loads == 2)
        }
    }

    @Test("a class with its own reading is protected from others' changes too")
    func ownReading() async throws {
        final class OwnReader: Document {
            var text = ""
            override func read(from url: URL) async throws {
                text = String(decoding: try Data(contentsOf: url), as: UTF8.self)
            }
            override func contents(forType type: String?) throws -> Contents { .data(Data(text.utf8)) }
        }
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            let document = OwnReader(fileURL: url)
            document.autosaveDelay = .seconds(1000)
            try await document.open()
            #expect(document.fileModificationDate != nil)
            try Data("theirs!".utf8).write(to: url)
            document.text = "mine"
            document.updateChangeCount(.done)
            await #expect { try await document.autosave() } throws: {
                ($0 as? UbiquitousFileError)?.code == .fileChangedByOther
            }
            try await document.revert(toContentsOf: url)
            #expect(document.text == "theirs!")
            document.text = "mine"
            document.updateChangeCount(.done)
            try await document.close()
            #expect(try text(url) == "mine")
        }
    }

    @Test("a document closed during another's write opens cleanly again")
    func closedWhileRelinquished() async throws {
        try await opened { document, url in
            try await document.relinquishPresentedItemToWriter()
            #expect(document.disabled == 1)
            try await document.close()
            #expect(document.disabled == 0)
            try await document.open()
            try Data("theirs!".utf8).write(to: url)
            await document.presentedItemDidChange()
            try await eventually { document.text == "theirs!" && document.documentState == .normal }
            #expect(document.disabled == 0)
            // A closed document relinquishes without a change of its state.
            try await document.close()
            try await document.relinquishPresentedItemToWriter()
            #expect(document.documentState == .closed && document.disabled == 0 && !document.presence.isRelinquishedToWriter)
        }
    }

    @Test("a document opened through a symlink is the link's target")
    func symlink() async throws {
        try await opened { _, url in
            let link = url.deletingLastPathComponent().appending(path: "link.txt")
            try FileSystem.symlink("note.txt", at: link.path)
            let document = TextDocument(fileURL: link)
            document.autosaveDelay = .seconds(1000)
            try await document.open()
            #expect(document.fileURL.path == url.path)
            try Data("theirs!".utf8).write(to: url)
            await document.presentedItemDidChange()
            try await eventually { document.text == "theirs!" }
            document.type(" mine")
            try await document.close()
            #expect(try text(url) == "theirs! mine" && FileSystem.status(link.path).isSymlink)
        }
    }
}
