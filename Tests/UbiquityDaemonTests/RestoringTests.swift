import Logging
import Testing
import UbiquityContent
import UbiquityCore
@testable import UbiquityDaemon
import UbiquitySystem

@Suite struct RestoringTests {
    private func store(_ folder: String, boot: UInt8) throws -> ContentStore {
        let journal = ContentJournal(
            path: folder + "/journal", start: 0, boot: [boot], random: SystemRandom(),
            placement: ContentJournal.Placement { _, _ in true }, halfSize: 64 << 10)
        return try ContentStore(stateFolder: folder, folders: 4, journal: journal)
    }

    private let id = ContentID(1)

    /// A store whose journal has a content.
    private func keeping(_ folder: String) throws -> ContentStore {
        try FileDescriptor.open(folder + "/journal", [.readWrite, .create]).write([0], at: 0)
        let store = try store(folder, boot: 1)
        try #require(try store.journal?.prepare() == true)
        let file = try store.create(id)
        try file.write([1, 2, 3], at: 0)
        try #require(try store.journal?.keep(id, file) == true)
        try store.journal?.sync()
        return store
    }

    /// Only the journal has the saved bytes then, and a mount would upload the old ones.
    @Test func unrestorableContentStopsTheMount() throws {
        try withTemporaryFolder { (folder: String) throws in
            let before = try keeping(folder)
            let logger = Logger(label: "test")
            FaultPoints.setHook { $0 == "content.sync" ? UbiquityError(.io, "a bad disk") : nil }
            defer { FaultPoints.setHook(nil) }
            // Only the process has died: the kernel's memory reaches the disk some time.
            try MountAssembly.restoreKept(into: store(folder, boot: 1), logger) { _ in true }
            let error = #expect(throws: UbiquityError.self) {
                try MountAssembly.restoreKept(into: store(folder, boot: 2), logger) { _ in true }
            }
            #expect(error?.remedy.contains("mount again") == true)
            FaultPoints.setHook(nil)
            try before.remove(id)
            let after = try store(folder, boot: 3)
            try MountAssembly.restoreKept(into: after, logger) { _ in true }
            #expect(try after.open(id, writable: false).read(count: 9, at: 0) == [1, 2, 3])
        }
    }

    /// The journal has all of it: a file in its place need not be read.
    @Test func folderInPlaceOfAContentIsSetAside() throws {
        try withTemporaryFolder { (folder: String) throws in
            let before = try keeping(folder)
            try before.remove(id)
            try FileSystem.makeDirectory(before.path(of: id))
            let after = try store(folder, boot: 2)
            try MountAssembly.restoreKept(into: after, Logger(label: "test")) { _ in true }
            #expect(try after.open(id, writable: false).read(count: 9, at: 0) == [1, 2, 3])
            #expect(try FileSystem.exists(folder + "/set-aside/content-\(id)"))
        }
    }
}
