import FoundationEssentials
import Testing
@testable import Ubiquity
import UbiquityCore
import UbiquitySystem
import UbiquityTestSupport

/// Coordinators outside of containers: snapshots and cancellation.
@Suite struct FileCoordinatorTests {
    @Test("a read for uploading gets a copy, which later changes do not reach and which is removed")
    func snapshotOfFile() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt")
            try Data("old".utf8).write(to: url)
            let copy = try await FileCoordinator().coordinate(readingItemAt: url, options: .forUploading) { copy in
                #expect(copy.lastPathComponent == "note.txt" && copy != url)
                try Data("changed".utf8).write(to: url)
                #expect(try String(decoding: Data(contentsOf: copy), as: UTF8.self) == "old")
                return copy
            }
            #expect(try !FileSystem.exists(copy.path))
            await #expect(throws: FileCoordinationError.self) {
                try await FileCoordinator().coordinate(
                    readingItemAt: URL(filePath: folder + "/none"), options: .forUploading
                ) { _ in }
            }
        }
    }

    @Test("a folder becomes a zip archive with its name as the only top entry")
    func snapshotOfFolder() async throws {
        try await TemporaryFolder.with { folder in
            try FileSystem.makeDirectories(folder + "/album.pkg/sub")
            for (name, text) in [("a.txt", "first"), ("sub/b.txt", "second"), ("empty", "")] {
                try Data(text.utf8).write(to: URL(filePath: "\(folder)/album.pkg/\(name)"))
            }
            try FileSystem.symlink("a.txt", at: folder + "/album.pkg/link")
            let url = URL(filePath: folder + "/album.pkg", directoryHint: .isDirectory)
            let bytes = try await FileCoordinator().coordinate(readingItemAt: url, options: .forUploading) { zip in
                #expect(zip.lastPathComponent == "album.pkg.zip")
                return Array(try Data(contentsOf: zip))
            }
            #expect(bytes.starts(with: [0x50, 0x4B, 3, 4]))
            let names: [[ItemName]] = try [
                ["album.pkg"], ["album.pkg", "a.txt"], ["album.pkg", "empty"], ["album.pkg", "link"],
                ["album.pkg", "sub"], ["album.pkg", "sub", "b.txt"],
            ].map { try $0.map { try ItemName($0) } }
            let kinds: [ZipEntry.Kind] = [
                .folder, .file(size: 5), .file(size: 0), .symlink(target: Array("a.txt".utf8)), .folder, .file(size: 6),
            ]
            let entries = try zip(names, kinds).map { try ZipEntry($0, $1, modified: Timestamp(nanoseconds: 0)) }
            #expect(Int64(bytes.count) == ZipWriter.length(of: entries))
        }
    }

    @Test("a cancelled coordinator ends each later access at once")
    func cancelled() async throws {
        try await TemporaryFolder.with { folder in
            let url = URL(filePath: folder + "/note.txt"), coordinator = FileCoordinator()
            try Data("old".utf8).write(to: url)
            try await coordinator.coordinate(readingItemAt: url) { _ in coordinator.cancel() }
            await #expect(throws: FileCoordinationError.userCancelled) {
                try await coordinator.coordinate(readingItemAt: url) { _ in Issue.record("the access took place") }
            }
        }
    }

    @Test("cancelling a coordinator ends its running wait")
    func cancelledWait() async throws {
        let cancellation = CoordinatorCancellation(), (begun, source) = AsyncStream.makeStream(of: Void.self)
        let wait = Task {
            try await cancellation.run {
                source.yield()
                try await Task.sleep(for: .seconds(1000))
            }
        }
        for await _ in begun { break }
        cancellation.cancel()
        await #expect(throws: FileCoordinationError.userCancelled) { try await wait.value }
    }

    @Test("observed attributes name the values that differ")
    func differences() {
        var old = UbiquitousItemResourceValues(), new = UbiquitousItemResourceValues()
        old.ubiquitousItemIsUploaded = false
        new.ubiquitousItemIsUploaded = true
        new.ubiquitousItemPercentUploaded = 100
        #expect(new.differences(from: old) == [.isUploaded, .percentUploaded])
        #expect(new.differences(from: new).isEmpty)
    }
}
