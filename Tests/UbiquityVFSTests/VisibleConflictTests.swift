import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
@testable import UbiquityVFS

/// Losing versions beside their documents (`visible-conflicts`).
@Suite struct VisibleConflictTests {
    private let container: TestContainer
    private let file: ItemRow
    private let entry = "report (conflict of laptop).txt"

    init() throws {
        container = try TestContainer(showsConflicts: true)
        try container.create("report.txt", "now")
        file = try #require(try container.index.child(of: .root, named: ItemName("report.txt")))
    }

    /// A version that another device lost.
    @discardableResult
    private func addConflict(_ number: UInt64 = 1, device: String = "laptop", _ text: String = "lost") throws -> VersionID {
        try container.cloud.addVersion(
            of: file.key, number, .conflict, at: 1_795_169_472 + Int64(number), device: device, text)
    }

    private func find(_ name: String, in parent: UInt64 = 1) async throws -> NodeAttributes? {
        try await container.fs.lookup(parent: parent, name: Array(name.utf8), caller: container.caller).value
    }

    private func remove(_ name: String, in parent: UInt64 = 1, directory: Bool = false) async throws {
        try await container.remove(name, in: parent, directory: directory)
    }

    private func rename(_ name: String, to target: String, flags: UInt32 = 0) async throws {
        try await container.fs.rename(
            parent: 1, name: Array(name.utf8), newParent: 1, newName: Array(target.utf8), flags: flags
        ).value
    }

    private func decided() throws -> [VersionID: PendingVersionAction.Kind] {
        try container.index.read { try $0.decidedVersions(of: file.id) }
    }

    private func makeReal(_ name: String) throws {
        try container.cloud.add(name, [])
    }

    @Test func conflictShowsAReadableEntryBesideTheDocument() async throws {
        try addConflict()
        #expect(try container.names() == [entry, "report.txt"])
        let found = try #require(try await find(entry))
        #expect(found.size == 4 && found.permissions == 0o444 && found.isVolatile && !found.isDirectory)
        #expect(try container.fs.attributes(of: found.ino) == found)
        #expect(try await container.content(of: found.ino) == "lost")
        #expect(try container.status(found.ino, "saving-device") == "laptop")
        #expect(try container.index.child(of: .root, named: ItemName(entry)) == nil)
        #expect(try await find("report (conflict of desk).txt") == nil)
    }

    @Test func withoutTheSettingNothingIsShown() async throws {
        let plain = try TestContainer()
        try plain.create("report.txt", "now")
        let row = try #require(try plain.index.child(of: .root, named: ItemName("report.txt")))
        try plain.cloud.addVersion(of: row.key, 1, .conflict, at: 1, device: "laptop", "lost")
        #expect(try plain.names() == ["report.txt"])
        #expect(try await plain.fs.lookup(parent: 1, name: Array(entry.utf8)).value == nil)
        try plain.create(entry)
    }

    @Test func removalOfTheEntryResolvesItsVersion() async throws {
        let version = try addConflict()
        try addConflict(2, "second")
        let second = "report (conflict of laptop 2).txt"
        #expect(try container.names() == [entry, second, "report.txt"])
        #expect(await errno { try await remove(entry, directory: true) } == .ENOTDIR)
        try await remove(entry)
        #expect(try decided() == [version: .resolve])
        // The name stays with its version: a second removal must not remove the other one.
        #expect(try container.names() == [second, "report.txt"])
        #expect(try await find(entry) == nil)
        #expect(await errno { try await remove(entry) } == .ENOENT)
        try await remove(second)
        #expect(try container.names() == ["report.txt"])
        #expect(try container.status(1, "conflict-count") == "0")
        // A new conflict begins with the first name.
        try addConflict(3, "third")
        #expect(try container.names() == [entry, "report.txt"])
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func everyChangeOfAnEntryIsRefused() async throws {
        try addConflict()
        let (fs, caller, bytes) = (container.fs, container.caller, Array(entry.utf8))
        let ino = try #require(try await find(entry)).ino
        #expect(errno { _ = try fs.open(ino, flags: .readWrite, caller: caller) } == .EPERM)
        #expect(errno { _ = try fs.setAttributes(of: ino, AttributeChanges(size: 0), caller: caller) } == .EPERM)
        #expect(errno { _ = try fs.link(ino, newParent: 1, newName: [65]).immediate } == .EPERM)
        #expect(errno { try container.create(entry) } == .EEXIST)
        #expect(errno { try container.makeDirectory(entry) } == .EEXIST)
        #expect(errno { _ = try fs.makeSymlink(parent: 1, name: bytes, target: [65], caller: caller).immediate } == .EEXIST)
        #expect(errno { _ = try fs.makeNode(parent: 1, name: bytes, mode: 0o100644, caller: caller).immediate } == .EEXIST)
        #expect(errno { _ = try fs.link(file.ino, newParent: 1, newName: bytes).immediate } == .EEXIST)
        #expect(await errno { try await rename("report.txt", to: entry) } == .EPERM)
        #expect(await errno { try await rename("report.txt", to: entry, flags: 1) } == .EEXIST)
        #expect(await errno { try await rename(entry, to: "mine.txt") } == .EPERM)
        #expect(try decided().isEmpty && container.names() == [entry, "report.txt"])
    }

    @Test func beginAndEndOfAConflictReachTheKernel() async throws {
        #expect(container.fs.showsConflicts && container.fs.mayShowConflict(Array(entry.utf8)))
        #expect(!container.fs.mayShowConflict(Array("report (1).txt".utf8)))
        _ = container.kernel.take()
        // The cloud's record, as the feed brings it.
        let version = try addConflict()
        try container.index.write(.remote) { try $0.noteVersions(of: file.id, .conflicts) }
        #expect(container.kernel.take().contains(.listing(1)))
        try container.index.decide([(.resolve, version)], of: file.key)
        #expect(container.kernel.take().contains(.listing(1)))
        #expect(try container.names() == ["report.txt"])
    }

    @Test func takenNamesAreNumbered() async throws {
        try makeReal(entry)
        try addConflict()
        let second = "report (conflict of laptop 2).txt", third = "report (conflict of laptop 3).txt"
        #expect(try container.names() == [second, entry, "report.txt"])
        #expect(try await find(entry)?.isVolatile == false)
        // A file of that name arrives: the entry gets another name.
        try makeReal(second)
        #expect(try container.names().first == third)
        #expect(try await container.content(of: #require(try await find(third)).ino) == "lost")
    }

    @Test func entryFollowsItsDocument() async throws {
        try addConflict()
        let folder = try container.makeDirectory("folder")
        try container.rename("report.txt", to: "other.md", inFolder: folder)
        #expect(try container.names() == ["folder"])
        #expect(try container.names(in: folder) == ["other (conflict of laptop).md", "other.md"])
        try container.unlink("other.md", in: folder)
        #expect(try container.names(in: folder) == [])
        try container.fs.removeDirectory(parent: 1, name: Array("folder".utf8)).immediate
    }

    /// One entry per call, and a document that is removed meanwhile: nothing is listed twice or omitted.
    @Test func listingInPiecesIsWhole() throws {
        for number in 1...3 { try addConflict(UInt64(number), device: "d\(number)") }
        for name in ["a", "b", "z"] { try container.create(name) }
        var names = [String](), offset: Int64 = 0
        while true {
            var count = 0
            try container.fs.readDirectory(1, offset: offset, withAttributes: false, room: 1) { item in
                guard count == 0 else { return false }
                (count, offset) = (1, item.offset)
                names.append(String(decoding: item.name, as: UTF8.self))
                return true
            }
            if count == 0 { break }
            if names.count == 3 { try container.index.decide([(.resolve, VersionID(high: 7, low: 1))], of: file.key) }
        }
        let conflicts = (1...3).map { "report (conflict of d\($0)).txt" }
        #expect(names == [".", ".."] + conflicts + ["a", "b", "report.txt", "z"])
    }

    @Test func longNamesLoseTheEndOfTheirStem() throws {
        let long = try ItemName(String(repeating: "é", count: 125) + ".txt")
        for (device, number) in [("laptop", 1), ("laptop", 12), (String(repeating: "ü", count: 300), 1)] {
            let name = VisibleConflicts.name(of: long, device: device, number)
            let text = try #require(String(validating: name.bytes, as: UTF8.self))
            #expect(name.bytes.count <= 255 && name.bytes.count > 250 && text.hasSuffix(number > 1 ? " 12).txt" : ").txt"))
            #expect(text.hasPrefix("éé") && text.contains(" (conflict of "))
        }
        let sentence = try ItemName("1. " + String(repeating: "\u{6587}", count: 80))
        #expect(VisibleConflicts.name(of: sentence, device: "a/b", 1).description.hasSuffix("\u{6587} (conflict of a-b)"))
        #expect(VisibleConflicts.name(of: try ItemName(".profile"), device: "", 1).description == ".profile (conflict of unknown device)")
    }

    /// Two long names that differ at their ends have different entries.
    @Test func shortenedNamesStayDifferent() throws {
        let stem = String(repeating: "x", count: 245)
        for (number, end) in ["1", "2"].enumerated() {
            try container.create(stem + end + ".txt", "now")
            let row = try #require(try container.index.child(of: .root, named: ItemName(stem + end + ".txt")))
            try container.cloud.addVersion(of: row.key, UInt64(number), .conflict, at: 1, device: "laptop", "lost \(end)")
        }
        let entries = try container.names().filter { $0.contains("(conflict of laptop") }
        #expect(entries.count == 2 && Set(entries).count == 2 && entries.allSatisfy { $0.utf8.count <= 255 })
    }

    @Test func losingPackageIsAFolderAndItsRemovalResolves() async throws {
        let package = try container.makeDirectory("deck.key")
        let row = try #require(try container.index.row(ino: package))
        let version = try container.cloud.addVersion(of: row.key, 1, .conflict, at: 5, device: "laptop", "")
        let text = Array("slide".utf8)
        func member(_ kind: ItemKind, _ path: String...) throws -> PackageMember {
            PackageMember(
                path: try path.map { try ItemName($0) }, kind: kind, mode: 0o755, createdAt: .zero, modifiedAt: .zero,
                version: kind == .file ? VersionID(high: 7, low: 9) : nil, size: kind == .file ? Int64(text.count) : 0)
        }
        let tree = PackageTree([try member(.directory, "data"), try member(.file, "data", "one")])
        container.cloud.trees.withLock { $0[version] = tree }
        let name = "deck (conflict of laptop).key"
        #expect(try container.names().contains(name))
        let folder = try #require(try await find(name))
        #expect(folder.isDirectory && folder.permissions == 0o755)
        let data = try #require(try await find("data", in: folder.ino))
        let one = try #require(try await find("one", in: data.ino))
        #expect(data.isDirectory && one.permissions == 0o555 && one.size == 5)
        #expect(errno { try container.create("x", in: folder.ino) } == .EPERM)
        #expect(await errno { try await remove(name) } == .EISDIR)
        #expect(await errno { try await remove(name, directory: true) } == .ENOTEMPTY)
        // Like `rm -r`.
        try await remove("one", in: data.ino)
        try await remove("data", in: folder.ino, directory: true)
        try await remove(name, directory: true)
        #expect(try await find(name) == nil)
        #expect(try container.index.read { try $0.decidedVersions(of: row.id) } == [version: .resolve])
    }

    @Test func bothPlacesOfAVersionAreUsableAtOnce() async throws {
        try addConflict()
        let beside = try #require(try await find(entry))
        let top = try #require(try await find(".versions")).ino
        let folder = try #require(try await find("report.txt", in: top)).ino
        let listing = try await container.fs.versionsListing(folder, offset: 0).value
        var name = [UInt8]()
        container.fs.read(listing, offset: 0) {
            name = $0.name
            return true
        }
        let inFolder = try #require(try await container.fs.lookup(parent: folder, name: name).value)
        #expect(inFolder.ino != beside.ino && inFolder.permissions == 0o644)
        container.fs.forget(inFolder.ino, 1)
        #expect(try await container.content(of: beside.ino) == "lost")
        container.fs.forget(beside.ino, 1)
        #expect(!container.fs.isInVersions(beside.ino))
    }
}
