import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Remote changes during an answer to the kernel. The kernel caches answers for a day, so each change must be in the
/// answer or be announced.
@Suite struct ConcurrentChangeTests {
    private let container: TestContainer

    init() throws { container = try TestContainer() }

    /// The entries of the top folder, with `change` just after the first of them was listed.
    private func list(changing change: () throws -> Void) throws -> [String: DirectoryItem] {
        var found: [String: DirectoryItem] = [:]
        var failure: (any Error)?
        try container.fs.readDirectory(1, offset: 0, withAttributes: true, room: 100) { item in
            guard item.name != Array(".".utf8), item.name != Array("..".utf8) else { return true }
            if found.isEmpty { do { try change() } catch { failure = error } }
            found[String(decoding: item.name, as: UTF8.self)] = item
            return true
        }
        if let failure { throw failure }
        return found
    }

    @Test func listingContainsConcurrentChanges() throws {
        try container.cloud.add("a", [])
        let (changed, gone) = (try container.cloud.add("b", [1]), try container.cloud.add("c", [1]))
        let (moved, replaced) = (try container.cloud.add("d", [1]), try container.cloud.add("e", [1]))
        let folder = try container.cloud.add("f", [], kind: .directory)
        let name = try ItemName("z")
        let found = try list {
            try container.cloud.change(changed.key, .attributes) { $0.size = 7 }
            try container.cloud.remove(gone.key)
            try container.cloud.change(moved.key, .moved) { $0.entry?.name = name }
            try container.cloud.replace(replaced.key, [1, 2, 3])
            try container.cloud.add("in", [], kind: .directory, in: folder.key)
        }
        #expect(found["b"]?.attributes.size == 7 && found["b"]?.isCounted == true)
        // No inode is announced under a name that does not lead to it.
        for name in ["c", "d", "e"] { #expect(found[name]?.isCounted != true, "\(name)") }
        #expect(found["f"]?.attributes.links == 3)
        // The kernel gets news about entries that it had before, or has now.
        _ = container.kernel.take()
        try container.cloud.change(changed.key, .attributes) { $0.size = 8 }
        #expect(container.kernel.take() == [.attributes(changed.ino)])
        container.fs.forget(changed.ino, 1)
        for ino in [gone, moved, replaced].map(\.ino) + [try #require(try container.lookup("e")).ino] {
            try container.cloud.change(moved.key, .attributes) { $0.size += 1 }
            container.fs.forget(ino, 1)
        }
        #expect(container.kernel.take().isEmpty)
    }

    /// Two concurrent answers, both from an earlier row: the second one must not show the old row either.
    @Test func secondLookupSeesTheChange() throws {
        try container.cloud.add("a", [])
        let row = try container.cloud.add("b", [1])
        let found = try list {
            try container.cloud.change(row.key, .attributes) { $0.size = 7 }
            #expect(try container.lookup("b")?.size == 7)
        }
        #expect(found["b"]?.attributes.size == 7)
    }

    /// As on a disk: the kernel does not look the folder up again for a program with an open handle, which would get an
    /// error.
    @Test func openFolderCanBeChangedAfterItsRemoval() async throws {
        let row = try container.cloud.add("d", [], kind: .directory)
        _ = try container.lookup("d")
        try container.cloud.remove(row.key)
        #expect(try await container.set(row.ino, AttributeChanges(mode: 0o700)).mode & 0o777 == 0o700)
    }

    /// The kernel has the old file at the name until the announcement, and then looks the name up again.
    @Test func setAttributesOnReplacedFileThrowsStale() async throws {
        let row = try container.cloud.add("a", [1])
        _ = try container.lookup("a")
        try container.cloud.replace(row.key, [1, 2, 3])
        let caller = container.caller
        await #expect(throws: Errno.ESTALE) { _ = try await container.set(row.ino, AttributeChanges(mode: 0o600)) }
        await #expect(throws: Errno.ESTALE) {
            _ = try await container.set(row.ino, AttributeChanges(modifiedAt: .now))
        }
        #expect(
            errno {
                _ = try container.fs.setXattr(of: row.ino, name: Array("user.mine".utf8), value: [1], flags: 0, caller: caller)
            } == .ESTALE)
        #expect(
            errno { _ = try container.fs.link(row.ino, newParent: 1, newName: Array("b".utf8)).immediate } == .ESTALE)
    }

    /// A program with the file open changes the open file.
    @Test func setAttributesOnReplacedOpenFileChangesIt() async throws {
        let ino = try container.create("a", "text")
        let handle = try await container.open(ino)
        let key = try #require(try container.index.row(ino: ino)?.key)
        try container.cloud.replace(key, [1, 2, 3])
        #expect(try await container.set(ino, AttributeChanges(mode: 0o600)).mode & 0o777 == 0o600)
        #expect(try container.fs.attributes(of: ino).mode & 0o777 == 0o600)
        container.fs.release(handle)
    }

    /// The kernel moves its own entry of the old name.
    @Test(arguments: [false, true]) func renameMovesNoReplacedFile(isReplaying: Bool) throws {
        let row = try container.cloud.add("a", [1])
        _ = try container.lookup("a")
        try container.cloud.replace(row.key, [1, 2, 3])
        if isReplaying { container.fs.replays.begin() }
        _ = container.kernel.take()
        try container.rename("a", to: "b")
        #expect(container.kernel.take().contains(.entry(1, "b")))
        // A file that the kernel knows is moved by the kernel itself.
        _ = try container.lookup("b")
        try container.rename("b", to: "c")
        #expect(!container.kernel.take().contains(.entry(1, "c")))
    }

    /// The kernel knows the saved file from the answer. An invalidation would make it look deleted to programs that
    /// have it open.
    @Test func saveWithABackupIsNotInvalidated() async throws {
        let row = try container.cloud.add("doc", Array("text".utf8))
        _ = try container.lookup("doc")
        #expect(try await container.content(of: row.ino) == "text")
        _ = container.kernel.take()
        try container.rename("doc", to: "doc~")
        let ino = try container.create("doc", "new")
        try container.create("other", "newer")
        try container.rename("other", to: "doc")
        let news = container.kernel.take()
        #expect(!news.contains(.entry(1, "doc")) && !news.contains(.entry(1, "doc~")), "\(ino) \(news)")
    }

    /// The kernel caches the answer to a link, whatever news it got meanwhile.
    @Test func linkAnswerIsNotCached() throws {
        let ino = try container.create("a", "text")
        #expect(try container.fs.link(ino, newParent: 1, newName: Array("b".utf8)).immediate.isChanging)
    }
}
