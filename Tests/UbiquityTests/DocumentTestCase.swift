import FoundationEssentials
import Testing
import Ubiquity
import UbiquityTestSupport

/// Helpers for tests of documents outside of containers.
@MainActor protocol DocumentTestCase {}

extension DocumentTestCase {
    func eventually(_ condition: () async throws -> Bool) async throws {
        for _ in 0..<6000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("the condition does not hold after 60 s")
    }

    func text(_ url: URL) throws -> String { String(decoding: try Data(contentsOf: url), as: UTF8.self) }

    /// Opens a document that does not save automatically.
    func opened(_ body: (TextDocument, URL) async throws -> Void) async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            let document = TextDocument(fileURL: url)
            document.autosaveDelay = .seconds(1000)
            try await document.open()
            try await body(document, url)
        }
    }
}
