import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

@Suite struct XattrTests {
    private func set(_ container: TestContainer, _ ino: UInt64, _ name: String, _ value: String, flags: Int32 = 0)
        async throws
    {
        try await container.fs.setXattr(
            of: ino, name: Array(name.utf8), value: Array(value.utf8), flags: flags, caller: container.caller
        ).value
    }

    private func names(_ container: TestContainer, _ ino: UInt64, pid: Int32 = 0) throws -> [String] {
        let list = try container.fs.xattrNames(of: ino, caller: Caller(uid: 0, gid: 0, pid: pid))
        return list.split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The kernel gives a program no user attribute of a special file, so there is none to list.
    @Test func specialFileListsNoAttributes() throws {
        let container = try TestContainer()
        let pipe = try container.fs.makeNode(
            parent: TestContainer.root, name: Array("p".utf8), mode: 0o010_644, caller: container.caller).immediate
        #expect(try names(container, pipe.ino) == [])
        #expect(try !names(container, container.makeDirectory("d")).isEmpty)
    }

    @Test func valuesAreKept() async throws {
        let container = try TestContainer()
        let ino = try container.create("a")
        try await set(container, ino, "user.note", "hello")
        try await set(container, ino, "security.x", "local")
        #expect(try container.fs.xattr(of: ino, name: Array("user.note".utf8)) == Array("hello".utf8))
        #expect(try container.fs.xattr(of: ino, name: Array("security.x".utf8)) == Array("local".utf8))
        #expect(try container.index.row(ino: ino)?.xattrs.count == 1)
        #expect(await errno { try await set(container, ino, "user.note", "x", flags: 1) } == .EEXIST)
        #expect(await errno { try await set(container, ino, "user.other", "x", flags: 2) } == .ENODATA)
        #expect(await errno { try await set(container, ino, "system.posix_acl_access", "x") } == .EOPNOTSUPP)
        let tooMuch = String(repeating: "x", count: 65_530)
        #expect(await errno { try await set(container, ino, "user.big", tooMuch) } == .ENOSPC)
        #expect(await errno { try await set(container, ino, "user.big", tooMuch + tooMuch) } == .E2BIG)
        try container.fs.removeXattr(of: ino, name: Array("user.note".utf8), caller: container.caller).immediate
        #expect(errno { _ = try container.fs.xattr(of: ino, name: Array("user.note".utf8)) } == .ENODATA)
        // `ls -l` requests this of every file, until it learns that this file system has none.
        let label = Array("security.selinux".utf8)
        #expect(errno { _ = try container.fs.xattr(of: ino, name: label) } == .EOPNOTSUPP)
        try await set(container, ino, "security.selinux", "x")
        #expect(try container.fs.xattr(of: ino, name: label) == Array("x".utf8))
    }

    /// Another device may have set it. The kernel would act on it, and a list must contain readable names only.
    @Test func foreignNamespaceIsNeitherListedNorServed() throws {
        let container = try TestContainer()
        let ino = try container.create("a", "x")
        try container.index.write(.remote) { transaction in
            let row = try #require(try transaction.row(ino: ino))
            var next = row
            next.xattrs = ["security.capability", "trusted.x", "user.a"].map { Xattr(name: Array($0.utf8), value: [1]) }
            try transaction.update(next, before: row)
        }
        #expect(try names(container, ino).filter { !$0.hasPrefix("user.ubiquity.") } == ["user.a"])
        #expect(errno { _ = try container.fs.xattr(of: ino, name: Array("security.capability".utf8)) } == .ENODATA)
    }

    @Test func statusIsListedAndReadable() throws {
        let container = try TestContainer()
        let ino = try container.create("a", "x")
        let names = try names(container, ino).filter { $0.hasPrefix("user.ubiquity.") }
        #expect(names.count == 19)
        for name in names { _ = try container.fs.xattr(of: ino, name: Array(name.utf8)) }
        #expect(try container.status(ino, "is-ubiquitous") == "1")
        #expect(try container.status(ino, "is-uploaded") == "0")
        #expect(try container.status(ino, "downloading-status") == "current")
        #expect(try container.status(ino, "container") == "test")
        #expect(try container.status(ino, "published") == "0")
        let item = try #require(try container.index.row(ino: ino)?.id)
        try container.index.write(.remote) { try $0.setLinkCounts(LinkCounts.encode([item: 3, .root: 1])) }
        #expect(try container.status(ino, "published") == "3")
        #expect(try container.status(1, "published") == "1")
        #expect(try container.status(ino, "item-id") == container.index.row(ino: ino)?.id.description)
        let excluded = try container.create("x.swp")
        #expect(try container.status(excluded, "is-excluded-from-sync") == "1")
        #expect(try container.status(excluded, "is-ubiquitous") == "0")
        #expect(try self.names(container, 1).contains("user.ubiquity.is-uploaded"))
    }

    @Test func statusFollowsADownload() async throws {
        let container = try TestContainer()
        container.cloud.allow(1000)
        let row = try container.cloud.add("a", [UInt8](repeating: 1, count: 4000))
        #expect(try container.status(row.ino, "percent-downloaded") == "0")
        #expect(try container.status(row.ino, "is-uploaded") == "1")
        let handle = try await container.open(row.ino)
        _ = try await container.fs.read(handle, offset: 0, length: 1000).value
        #expect(try container.status(row.ino, "is-downloading") == "1")
        #expect(try container.status(row.ino, "percent-downloaded") == "25")
        container.cloud.allow(.max)
        _ = try await container.fs.read(handle, offset: 0, length: 4000).value
        #expect(try container.status(row.ino, "percent-downloaded") == "100")
        #expect(try container.status(row.ino, "downloading-status") == "current")
        container.fs.release(handle)
    }

    @Test func statusIsNotSetButByCopyToolsInVain() async throws {
        let container = try TestContainer()
        let ino = try container.create("a")
        #expect(await errno { try await set(container, ino, "user.ubiquity.is-pinned", "1") } == .EPERM)
        #expect(await errno { try await set(container, ino, "user.ubiquity.nonsense", "1") } == .EINVAL)
        #expect(
            errno {
                try container.fs.removeXattr(
                    of: ino, name: Array("user.ubiquity.is-pinned".utf8), caller: container.caller).immediate
            } == .EPERM)
    }

    @Test func controlsReachTheEngine() async throws {
        let container = try TestContainer()
        let ino = try container.create("a", "x")
        let key = try #require(try container.index.row(ino: ino)?.key)
        try await set(container, ino, "user.ubiquity.download", "1")
        try await set(container, ino, "user.ubiquity.pinned", "1")
        try await set(container, ino, "user.ubiquity.pinned", "0")
        #expect(container.control.asked == ["download \(key)", "pin true", "pin false"])
        #expect(await errno { try await set(container, ino, "user.ubiquity.pinned", "maybe") } == .EINVAL)
        for value in ["0", "no"] {
            #expect(await errno { try await set(container, ino, "user.ubiquity.download", value) } == .EINVAL)
            #expect(await errno { try await set(container, ino, "user.ubiquity.evict", value) } == .EINVAL)
        }
        #expect(await errno { try await set(container, ino, "user.ubiquity.evict", "1") } == .EPERM)
        #expect(await errno { try await set(container, ino, "user.ubiquity.evict", "") } == .EPERM)
        let handle = try await container.open(ino)
        #expect(await errno { try await set(container, ino, "user.ubiquity.evict", "1") } == .EBUSY)
        container.fs.release(handle)
    }
}

/// Packages, as their attributes show them.
@Suite struct PackageAttributeTests {
    @Test func packagesAreKnownByNameOrMark() throws {
        let container = try TestContainer()
        let bundle = try container.makeDirectory("a.RTFD"), plain = try container.makeDirectory("b")
        let file = try container.create("c.rtfd")
        #expect(try container.status(bundle, "is-package") == "1")
        for ino in [plain, file] { #expect(try container.status(ino, "is-package") == "0") }
        let mark = Array("user.ubiquity.package".utf8)
        func set(_ ino: UInt64, _ value: String) throws {
            _ = try container.fs.setXattr(of: ino, name: mark, value: Array(value.utf8), flags: 0, caller: container.caller)
        }
        try set(plain, "1")
        #expect(try container.status(plain, "is-package") == "1" && container.status(plain, "package") == "1")
        try set(bundle, "0")
        #expect(try container.status(bundle, "is-package") == "0")
        #expect(errno { try set(plain, "x") } == .EINVAL)
        #expect(errno { try set(file, "1") } == .ENOTDIR)
        #expect(errno { try set(TestContainer.root, "1") } == .EINVAL)
        try container.fs.removeXattr(of: plain, name: mark, caller: container.caller).immediate
        #expect(try container.status(plain, "is-package") == "0")
        #expect(errno { _ = try container.status(plain, "package") } == .ENODATA)
    }

    @Test func packageStateCoversAllMembers() throws {
        let container = try TestContainer()
        let package = try container.makeDirectory("a.pages"), plain = try container.makeDirectory("b")
        for folder in [package, plain] { try container.create("f", in: folder, "text") }
        #expect(try container.status(package, "is-uploaded") == "0")
        #expect(try container.status(package, "percent-uploaded") == "0")
        #expect(try container.status(package, "downloading-status") == "current")
        #expect(try container.status(package, "percent-downloaded") == "100")
    }
}
