import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// The hidden `.versions` folder.
@Suite struct VersionTests {
    private let container: TestContainer
    private let file: ItemRow
    private let conflict = "2026-11-20T10.11.12Z laptop (conflict).txt"
    private let history = "2026-11-19T10.11.12Z desk.txt"

    init() throws {
        container = try TestContainer()
        try container.create("report.txt", "now")
        file = try #require(try container.index.child(of: .root, named: ItemName("report.txt")))
        try container.cloud.addVersion(of: file.key, 1, .conflict, at: 1_795_169_472, device: "laptop", "lost")
        try container.cloud.addVersion(of: file.key, 2, .history, at: 1_795_083_072, device: "desk", "before")
    }

    private func find(_ path: String...) async throws -> NodeAttributes? {
        var found = try container.fs.attributes(of: 1)
        for name in path {
            guard let next = try await container.fs.lookup(parent: found.ino, name: Array(name.utf8)).value else { return nil }
            found = next
        }
        return found
    }

    private func names(_ path: String...) async throws -> [String] {
        var ino: UInt64 = 1
        for name in path { ino = try #require(try await container.fs.lookup(parent: ino, name: Array(name.utf8)).value).ino }
        let listing = try await container.fs.versionsListing(ino, offset: 0).value
        var names = [String]()
        container.fs.read(listing, offset: 0) {
            names.append(String(decoding: $0.name, as: UTF8.self))
            return true
        }
        return Array(names.dropFirst(2))
    }

    private func decided() throws -> [VersionID: PendingVersionAction.Kind] {
        try container.index.read { try $0.decidedVersions(of: file.id) }
    }

    private func rename(_ name: String, to target: String, flags: UInt32 = 0) async throws {
        let folder = try #require(try await find(".versions", "report.txt"))
        try await container.fs.rename(
            parent: folder.ino, name: Array(name.utf8), newParent: 1, newName: Array(target.utf8), flags: flags
        ).value
    }

    // MARK: Listing and reading

    @Test func versionsFolderIsHiddenButReachable() async throws {
        try container.makeDirectory("empty")
        #expect(try container.names() == ["empty", "report.txt"])
        #expect(try await names(".versions") == ["report.txt"])
        #expect(try await names("empty", ".versions") == [])
        #expect(try await names(".versions", "report.txt") == [history, conflict])
        #expect(try await find(".versions", "absent") == nil)
        #expect(try await find(".versions", ".versions") == nil)
        #expect(try await find(".versions", "report.txt", "absent") == nil)
        #expect(try container.fs.attributes(of: 1).links == 3)
    }

    @Test func versionLooksLikeAFile() async throws {
        let found = try #require(try await find(".versions", "report.txt", conflict))
        #expect(found.size == 4 && !found.isDirectory && found.permissions == 0o644 && found.isVolatile)
        #expect(found.modifiedAt == Timestamp(seconds: 1_795_169_472, nanoseconds: 0) && found.blocks == 1)
        #expect(try container.status(found.ino, "display-name") == "report.txt")
        #expect(try container.status(found.ino, "saving-device") == "laptop")
        #expect(try container.status(found.ino, "is-conflict") == "1")
        #expect(try container.status(found.ino, "is-resolved") == "0")
        #expect(try container.status(found.ino, "version-id") == VersionID(high: 7, low: 1).description)
        #expect(try await container.content(of: found.ino) == "lost")
        let earlier = try #require(try await find(".versions", "report.txt", history))
        #expect(try container.status(earlier.ino, "is-conflict") == "0")
        #expect(try await container.content(of: earlier.ino) == "before")
    }

    @Test func conflictsAreCountedUpwards() async throws {
        let folder = try container.makeDirectory("folder")
        #expect(try container.status(folder, "conflict-count") == "0")
        try container.rename("report.txt", to: "renamed", inFolder: folder)
        #expect(try container.status(folder, "conflict-count") == "1")
        #expect(try container.status(folder, "has-unresolved-conflicts") == "1")
        #expect(try container.status(1, "conflict-count") == "1")
        #expect(try await names("folder", ".versions") == ["renamed"])
        #expect(try await names(".versions") == [])
        try container.rename("renamed", in: folder, to: "back")
        #expect(try container.status(folder, "conflict-count") == "0")
        try container.fs.unlink(parent: 1, name: Array("back".utf8)).immediate
        #expect(try container.status(1, "conflict-count") == "0")
    }

    @Test func hardLinkHasTheSameVersions() async throws {
        let folder = try container.makeDirectory("folder")
        let file = try #require(try container.fs.lookup(parent: 1, name: Array("report.txt".utf8)).immediate)
        _ = try container.fs.link(file.ino, newParent: folder, newName: Array("other".utf8)).immediate
        #expect(try await names("folder", ".versions") == ["other"])
        #expect(try await names("folder", ".versions", "other") == names(".versions", "report.txt"))
    }

    // MARK: Resolving

    @Test func removalOfAConflictVersionResolvesIt() async throws {
        let folder = try #require(try await find(".versions", "report.txt"))
        try await container.fs.unlink(parent: folder.ino, name: Array(conflict.utf8)).value
        #expect(try await names(".versions", "report.txt") == [history])
        #expect(try decided() == [VersionID(high: 7, low: 1): .resolve])
        #expect(try container.status(1, "conflict-count") == "0")
        #expect(await errno { try await container.fs.unlink(parent: folder.ino, name: [65]).value } == .ENOENT)
    }

    /// Otherwise `rm -r .versions` would erase the history on every device, without the trash.
    @Test func unlinkOfEarlierVersionIsRefused() async throws {
        let folder = try #require(try await find(".versions", "report.txt"))
        func remove(_ name: String, directory: Bool = false) async -> Errno? {
            await errno {
                try await container.remove(name, in: folder.ino, directory: directory)
            }
        }
        #expect(await remove(history) == .EPERM)
        #expect(try decided().isEmpty)
        #expect(await remove(conflict) == nil)
        #expect(await remove(history) == .EPERM)
        #expect(try decided() == [VersionID(high: 7, low: 1): .resolve])
        #expect(try await names(".versions", "report.txt") == [history])
        let top = try #require(try await find(".versions")).ino
        let file = await errno {
            try await container.fs.removeDirectory(parent: top, name: Array("report.txt".utf8)).value
        }
        #expect(file == .ENOTEMPTY)
        // A copy of the version keeps the version.
        try await rename(history, to: "old.txt", flags: 1)
        #expect(try await names(".versions", "report.txt") == [history])
    }

    @Test func settingResolvedResolves() async throws {
        let found = try #require(try await find(".versions", "report.txt", conflict))
        let name = Array("user.ubiquity.resolved".utf8)
        func set(_ ino: UInt64, _ value: String) -> Errno? {
            errno {
                guard case .now = try container.fs.setXattr(
                    of: ino, name: name, value: Array(value.utf8), flags: 0, caller: container.caller)
                else { throw Errno.EAGAIN }
            }
        }
        #expect(set(found.ino, "0") == .EINVAL)
        #expect(set(found.ino, "1") == nil)
        #expect(try decided() == [VersionID(high: 7, low: 1): .resolve])
        #expect(set(file.ino, "1") == nil)
        let earlier = try #require(try await find(".versions", "report.txt", history))
        #expect(set(earlier.ino, "1") == .EINVAL)
    }

    @Test func movingOverTheFileRestoresAndResolves() async throws {
        let version = try #require(try await find(".versions", "report.txt", conflict))
        try await rename(conflict, to: "report.txt")
        let now = try #require(try container.lookup("report.txt"))
        #expect(now.ino == version.ino, "the kernel goes on with the inode that was moved")
        #expect(try await container.content(of: now.ino) == "lost")
        let row = try #require(try container.index.row(ino: now.ino))
        #expect(row.id == file.id && row.dirty.contains(.content) && row.size == 4)
        #expect(try await names(".versions", "report.txt") == [history])
        // Not before the content is uploaded.
        #expect(try container.index.read { try $0.versionActions(limit: 9) }.isEmpty)
        try await rename(history, to: "report.txt")
        #expect(try await container.content(of: #require(try container.lookup("report.txt")).ino) == "before")
        #expect(try await names(".versions", "report.txt") == [history], "history stays where it is")
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    @Test func movingElsewhereKeepsBoth() async throws {
        try await rename(conflict, to: "mine.txt", flags: 1)
        #expect(try container.names() == ["mine.txt", "report.txt"])
        let mine = try #require(try container.lookup("mine.txt"))
        #expect(try await container.content(of: mine.ino) == "lost")
        #expect(try await container.content(of: file.ino) == "now")
        let row = try #require(try container.index.row(ino: mine.ino))
        #expect(row.dirty.contains(.created) && row.id != file.id)
        #expect(try decided() == [VersionID(high: 7, low: 1): .resolve])
        #expect(await errno { try await rename(history, to: "mine.txt", flags: 1) } == .EEXIST)
        let handle = try await container.open(mine.ino, .readWrite)
        try container.write("changed", to: handle)
        container.fs.release(handle)
        #expect(try await container.content(of: mine.ino) == "changed")
    }

    @Test func otherChangesInTheVersionsFolderAreRefused() async throws {
        let fs = container.fs, caller = container.caller
        let top = try #require(try await find(".versions")).ino
        let folder = try #require(try await find(".versions", "report.txt")).ino
        let version = try #require(try await find(".versions", "report.txt", conflict)).ino
        for parent in [top, folder] {
            #expect(errno { try container.create("x", in: parent) } == .EPERM)
            #expect(errno { try container.makeDirectory("x", in: parent) } == .EPERM)
            #expect(errno { _ = try fs.makeNode(parent: parent, name: [120], mode: 0o100644, caller: caller).immediate } == .EPERM)
            #expect(errno { _ = try fs.makeSymlink(parent: parent, name: [120], target: [65], caller: caller).immediate } == .EPERM)
            let renamed = errno {
                _ = try fs.rename(
                    parent: 1, name: Array("report.txt".utf8), newParent: parent, newName: [120], flags: 0)
            }
            #expect(renamed == .EPERM)
        }
        #expect(errno { _ = try fs.open(version, flags: .readWrite, caller: caller) } == .EPERM)
        #expect(errno { _ = try fs.setAttributes(of: version, AttributeChanges(mode: 0o600), caller: caller) } == .EPERM)
        #expect(errno { _ = try fs.setAttributes(of: version, AttributeChanges(size: 0), caller: caller) } == .EPERM)
        #expect(errno { _ = try fs.removeDirectory(parent: 1, name: Array(".versions".utf8)) } == .EPERM)
        #expect(errno { _ = try fs.unlink(parent: top, name: Array("report.txt".utf8)) } == .EPERM)
        let notEmpty = await errno {
            try await fs.removeDirectory(parent: top, name: Array("report.txt".utf8)).value
        }
        #expect(notEmpty == .ENOTEMPTY)
        #expect(try decided().isEmpty)
    }

    @Test func folderWithVersionsCanBeRemoved() async throws {
        let folder = try container.makeDirectory("folder")
        try container.rename("report.txt", to: "in", inFolder: folder)
        _ = try await find("folder", ".versions", "in", conflict)
        try container.unlink("in", in: folder)
        try container.fs.removeDirectory(parent: 1, name: Array("folder".utf8)).immediate
        #expect(try container.names() == [])
    }

    @Test func forgottenInodesLeaveNothing() async throws {
        let found = try #require(try await find(".versions", "report.txt", conflict))
        #expect(container.fs.isInVersions(found.ino))
        container.fs.forget(found.ino, 1)
        #expect(!container.fs.isInVersions(found.ino))
        #expect(container.raw.violation(whileIdle: true) == nil)
    }
}

@Suite struct VersionNameTests {
    private func version(_ low: UInt64, _ device: String, _ kind: RemoteVersion.Kind = .history) throws -> RemoteVersion {
        RemoteVersion(
            content: RemoteContent(
                version: VersionID(high: low << 56, low: low), size: 0, isAvailable: true, device: DeviceID(high: 1, low: 1),
                deviceName: device, manifest: nil),
            kind: kind, modifiedAt: Timestamp(seconds: 0, nanoseconds: 5), savedAt: .zero, savedName: try ItemName("x"),
            baseVersion: nil)
    }

    @Test func namesAreCleanShortAndDifferent() throws {
        let versions = [
            try version(1, "a/b"), try version(2, "a/b"), try version(3, "", .conflict),
            try version(4, String(repeating: "é", count: 300)),
        ]
        let names = VersionNames().named(versions, of: .root, try ItemName("report.tar.gz")).map(\.0.description)
        #expect(names[0] == "1970-01-01T00.00.00Z a-b.gz")
        #expect(names[1] == "1970-01-01T00.00.00Z a-b 020000.gz")
        #expect(names[2] == "1970-01-01T00.00.00Z unknown device (conflict).gz")
        #expect(names[3].utf8.count <= 255 && names[3].hasSuffix("é.gz"))
        #expect(Set(names).count == 4)
    }

    /// A dot inside a sentence begins no extension, which would use up the length; no name ends within a character.
    @Test func longSuffixIsNoExtension() throws {
        let name = try ItemName("1. " + String(repeating: "\u{6587}", count: 80))
        let shown = VersionNames().named([try version(1, "a", .conflict), try version(2, "b")], of: .root, name).map(\.0)
        #expect(shown.map(\.description) == ["1970-01-01T00.00.00Z a (conflict)", "1970-01-01T00.00.00Z b"])
    }

    /// A second removal by the first one's name must not remove the second version.
    @Test func removedVersionsNameIsNotReused() throws {
        let (names, file) = (VersionNames(), try ItemName("x.txt"))
        let (one, other) = (try version(1, "a"), try version(2, "a"))
        let shown = names.named([one, other], of: .root, file).map(\.0)
        #expect(names.named([other], of: .root, file).map(\.0) == [shown[1]])
        #expect(names.named([try version(3, "a"), other], of: .root, file).map(\.0).contains(shown[0]) == false)
        #expect(names.named([one, other], of: .root, file).map(\.0) == shown)
    }
}
