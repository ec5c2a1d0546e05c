import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityVFS

/// The status attributes of a folder, which cover its whole tree.
@Suite struct FolderAttributeTests {
    private let container: TestContainer
    /// Nested folders, the top folder first.
    private let folders: [UInt64]
    private let deepest: ItemRow

    init() throws {
        container = try TestContainer()
        var folders = [TestContainer.root], row = try #require(try container.index.row(ino: TestContainer.root))
        for name in ["a", "b", "c"] {
            row = try container.cloud.add(name, [], kind: .directory, in: row.key)
            folders.append(row.ino)
        }
        self.folders = folders
        deepest = row
    }

    private func expect(_ values: [String: String], _ location: SourceLocation = #_sourceLocation) throws {
        for folder in folders {
            for (name, value) in values {
                let found = try container.status(folder, name)
                #expect(found == value, "\(name) of \(folder)", sourceLocation: location)
            }
        }
    }

    /// Marks an item as sent.
    private func confirm(_ ino: UInt64) throws {
        let row = try #require(try container.index.row(ino: ino))
        try container.cloud.change(row.key, .attributes) { row in
            row.dirty = []
            if row.kind == .file { row.version = VersionID(high: 2, low: ino) }
        }
    }

    @Test func fileNotUploadedThreeLevelsDownMakesFoldersNotUploaded() throws {
        try expect(["is-uploaded": "1", "percent-uploaded": "100"])
        let ino = try container.create("f", in: deepest.ino, "text")
        // Its folder's times have changed.
        try expect(["is-uploaded": "0", "percent-uploaded": "0", "downloading-status": "current"])
        for folder in folders { try confirm(folder) }
        try expect(["is-uploaded": "0", "percent-uploaded": "0"])
        try confirm(ino)
        try expect(["is-uploaded": "1", "percent-uploaded": "100"])
    }

    @Test func placeholdersMakeFoldersNotDownloaded() async throws {
        try expect(["downloading-status": "current", "percent-downloaded": "100"])
        let rows = try ["1", "2"].map { try container.cloud.add($0, [UInt8](repeating: 1, count: 500), in: deepest.key) }
        try expect(["downloading-status": "not-downloaded", "percent-downloaded": "0", "is-uploaded": "1"])
        for (row, values) in zip(rows, [("not-downloaded", "50"), ("current", "100")]) {
            let handle = try await container.open(row.ino)
            _ = try await container.fs.read(handle, offset: 0, length: 500).value
            container.fs.release(handle)
            _ = try container.status(row.ino, "downloading-status")
            try expect(["downloading-status": values.0, "percent-downloaded": values.1])
        }
    }

    @Test func newerContentAtTheCloudShowsInFolders() throws {
        let ino = try container.create("f", in: deepest.ino, "text")
        for item in folders + [ino] { try confirm(item) }
        let row = try #require(try container.index.row(ino: ino))
        try container.index.write(.remote) { transaction in
            let content = RemoteContent(
                version: VersionID(high: 9, low: 9), size: 7, isAvailable: true, device: DeviceID(high: 1, low: 1),
                deviceName: "laptop", manifest: nil)
            _ = try transaction.setRemote(
                RemoteItem(
                    id: row.id, kind: .file, revision: Revision(5), parent: deepest.id, name: try ItemName("f"),
                    mode: 0o644, createdAt: .zero, modifiedAt: .zero, content: content), state: .awaitingContent)
        }
        try expect(["downloading-status": "downloaded", "percent-downloaded": "100", "is-uploaded": "1"])
    }

    @Test func folderThatMovesTakesItsStateAlong() throws {
        _ = try container.cloud.add("f", [1], in: deepest.key)
        let other = try container.makeDirectory("other")
        #expect(try container.status(other, "downloading-status") == "current")
        try container.fs.rename(
            parent: folders[2], name: Array("c".utf8), newParent: other, newName: Array("c".utf8), flags: 0).immediate
        for folder in [other, deepest.ino, TestContainer.root] {
            #expect(try container.status(folder, "downloading-status") == "not-downloaded")
        }
        for folder in folders[1...2] { #expect(try container.status(folder, "downloading-status") == "current") }
    }
}
