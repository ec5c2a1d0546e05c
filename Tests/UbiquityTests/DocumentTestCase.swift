import FoundationEssentials
import Testing
import Ubiquity
import UbiquityTestSupport

/// What tests of documents share; these are outside of containers.
@MainActor protocol DocumentTestCase {}

extension DocumentTestCase {
    func eventually(_ condition: () async throws -> Bool) async throws {
        for _ in 0..<6000 {
            if try await condition() { return }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("not so after 60 s")
    }

    func text(_ url: URL) throws -> String { String(decoding: try Data(contentsOf: url), as: UTF8.self) }

    /// A document that is open and saves nothing by itself.
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
