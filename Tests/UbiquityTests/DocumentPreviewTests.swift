import FoundationEssentials
import Testing
@testable import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

/// Previews beside documents.
@MainActor @Suite struct DocumentPreviewTests: DocumentTestCase {
    @Test("PV-02: a document's preview has its place and name in the folder of previews")
    func places() {
        func preview(_ path: String) -> String? { DocumentPreview.url(for: URL(filePath: path))?.path }
        #expect(preview("/c/Documents/trip/n.note") == "/c/Previews/trip/n.note.preview")
        #expect(preview("/c/Documents/a/Documents/n") == "/c/Documents/a/Previews/n.preview")
        #expect(preview("/c/n.note") == nil && preview("/c/Documents") == nil)
        let other = DocumentPreview.url(for: URL(filePath: "/c/Documents/n"), folder: "Data")
        #expect(other?.path == "/c/Data/n.preview")
    }

    @Test("PV-04: the preview is written after the document, and a failure leaves the save valid")
    func saving() async throws {
        final class Pictured: Document {
            var text = ""
            var fails = false
            override func load(fromContents contents: Contents, ofType type: String?) throws {}
            override func contents(forType type: String?) throws -> Contents { .data(Data(text.utf8)) }
            override func previewContents() throws -> Data? {
                if fails { throw CancellationError() }
                return Data("preview of \(text)".utf8)
            }
        }
        try await TemporaryFolder.with { folder in
            try FileSystem.makeDirectories(folder + "/Documents")
            let url = URL(filePath: folder + "/Documents/n.note")
            let preview = URL(filePath: folder + "/Previews/n.note.preview")
            let document = Pictured(fileURL: url)
            document.text = "one"
            try await document.save(to: url, for: .forCreating)
            #expect(try text(preview) == "preview of one")
            document.fails = true
            document.text = "two"
            document.updateChangeCount(.done)
            try await document.autosave()
            #expect(try text(url) == "two" && text(preview) == "preview of one")
            document.fails = false
            try FileSystem.removeTree(folder + "/Previews")
            try FileSystem.symlink("/proc/none", at: folder + "/Previews")
            document.text = "three"
            document.updateChangeCount(.done)
            try await document.close()
            #expect(try text(url) == "three")
        }
    }
}
