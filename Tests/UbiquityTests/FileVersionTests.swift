import FoundationEssentials
import Testing
import UbiquityControl
@testable import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

/// Versions in a folder of versions.
@Suite struct FileVersionTests {
    private func file(_ text: String) -> FileWrapper { FileWrapper(regularFileWithContents: Data(text.utf8)) }

    private func names(_ path: String) throws -> [String] {
        try FileSystem.entries(of: path).map { String(decoding: $0.name, as: UTF8.self) }.sorted()
    }

    /// A package, and a version of it with other members.
    private func package(_ body: (String, FileVersion) async throws -> Void) async throws {
        try await TemporaryFolder.with { folder in
            for place in [".versions", ".versions/p"] { try FileSystem.makeDirectory("\(folder)/\(place)") }
            let images = FileWrapper(directoryWithFileWrappers: ["one": file("1")])
            let other = FileWrapper(directoryWithFileWrappers: ["text": file("other"), "images": images])
            try await other.write(to: URL(filePath: folder + "/.versions/p/v"))
            let current = FileWrapper(directoryWithFileWrappers: ["text": file("current"), "extra": file("e")])
            try await current.write(to: URL(filePath: folder + "/p"))
            let report = VersionReport(
                id: "1", kind: .conflict, name: "v", displayName: "p", device: "b", modifiedAt: 0, size: 6, isAvailable: true)
            try await body(folder, FileVersion(report, of: URL(filePath: folder + "/p")))
        }
    }

    @Test("PN-18: a package's version is read as a wrapper and replaces the package or goes to a new place")
    func packages() async throws {
        try await package { folder, version in
            await #expect { _ = try await version.contents() } throws: {
                ($0 as? UbiquitousFileError)?.code == .featureUnsupported
            }
            let text = try await version.fileWrapper().fileWrappers?["text"]?.regularFileContents()
            #expect(text == Data("other".utf8))
            try await version.replaceItem(at: URL(filePath: folder + "/new"))
            #expect(try names(folder + "/new") == ["images", "text"] && names(folder + "/new/images") == ["one"])
            try await version.replaceItem(at: URL(filePath: folder + "/p"))
            #expect(try names(folder + "/p") == ["images", "text"] && !version.isResolved)
            #expect(try names(folder + "/.versions/p") == ["v"])
            try await version.replaceItem(at: URL(filePath: folder + "/p"), options: .byMoving)
            #expect(try names(folder + "/.versions/p") == [] && names(folder + "/p") == ["images", "text"])
            #expect(version.isResolved)
        }
    }

    @Test("PN-18: a package's version is removed with its members, once")
    func removal() async throws {
        try await package { folder, version in
            try await version.remove()
            try await version.remove()
            #expect(try names(folder + "/.versions/p") == [] && names(folder + "/p") == ["extra", "text"])
        }
    }
}
