import Dispatch
import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Replays of remote changes through the mount. The test plays the process that makes the calls, and the kernel.
@Suite struct ReplayTests {
    private static let process: Int32 = 4711
    private let me = Caller(uid: 1000, gid: 1000, pid: process)

    private func replaying() throws -> TestContainer {
        let container = try TestContainer()
        container.fs.replays.begin()
        container.fs.replays.setProcess(Self.process)
        return container
    }

    private func name(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test func newItemIsReplayed() throws {
        let container = try replaying()
        #expect(try container.lookup("a") == nil)
        let row = try container.cloud.add("a", [1, 2])
        let call = try #require(container.fs.replays.next())
        #expect(call.kind == .makeFile && call.place.folder.isEmpty && call.place.name == name("a"))
        // Other programs see only existing items.
        #expect(try container.lookup("a")?.ino == row.ino)
        #expect(container.fs.isReplay(me) && !container.fs.isReplay(container.caller))
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: name("a")) == nil)
        let made = try container.fs.replayAnswers.make(parent: 1, name: name("a"), type: FileMode.file)
        #expect(made.ino == row.ino && made.size == 2)
        // The kernel ignores news before it has the inode.
        #expect(made.isChanging)
        container.fs.replays.finish(true)
        #expect(container.kernel.take().isEmpty)
        #expect(try container.index.row(key: row.key)?.dirty == [])
        #expect(errno { _ = try container.fs.replayAnswers.make(parent: 1, name: name("a"), type: FileMode.file) } == .ECANCELED)
    }

    /// A watcher of a tree watches a new folder after its event, and then gets events of its entries.
    @Test func itemsOfNewFolderAreReplayedAfterIt() throws {
        let container = try replaying()
        let folder = try container.cloud.add("d", [], kind: .directory)
        try container.cloud.add("a", [1], in: folder.key)
        let inner = try container.cloud.add("e", [], kind: .directory, in: folder.key)
        try container.cloud.add("b", [1], in: inner.key)
        try container.cloud.add("after", [])
        var places: [String] = []
        while let call = container.fs.replays.next(), call.place.name != name("after") {
            places.append(String(decoding: call.place.folder + [UInt8(ascii: "/")] + call.place.name, as: UTF8.self))
            _ = try container.fs.replayAnswers.make(
                parent: call.place.inode, name: call.place.name,
                type: call.kind == .makeFile ? FileMode.file : FileMode.directory)
            container.fs.replays.finish(true)
        }
        container.fs.replays.finish(false)
        #expect(places == ["/d", "d/a", "d/e", "d/e/b"])
    }

    /// The events of a tree of thousands are useless: programs list it.
    @Test func largeNewTreeReplaysOnlyTheFirstItems() throws {
        let container = try replaying()
        let limit = Replays.maximumInNewFolders
        try container.cloud.add(folder: "d", of: limit + 10)
        try container.cloud.add("after", [])
        var count = 0
        while let call = container.fs.replays.next(), call.place.name != name("after") {
            count += 1
            container.fs.replays.finish(false)
        }
        container.fs.replays.finish(false)
        #expect(count == limit + 1)
    }

    /// A reader of the index sees a commit a moment before its changes are queued.
    @Test func replayMarkIncludesTheLastCommit() throws {
        let container = try replaying()
        let isAsked = DispatchSemaphore(value: 0), isAnswered = DispatchSemaphore(value: 0)
        let isOver = DispatchSemaphore(value: 0)
        FaultPoints.setHook { name in
            guard name == "index.committed" else { return nil }
            isAsked.signal()
            // A correct wait gets no answer before this commit is over.
            _ = isAnswered.wait(timeout: .now() + .milliseconds(300))
            return nil
        }
        defer { FaultPoints.setHook(nil) }
        let mark = Lock<UInt64?>(nil)
        DispatchQueue.global().async {
            isAsked.wait()
            mark.withLock { $0 = container.raw.replays.mark }
            isAnswered.signal()
            isOver.signal()
        }
        try container.cloud.add("a", [1])
        isOver.wait()
        #expect(mark.withLock { $0 } == 1)
    }

    /// A watch on a file keeps its inode, and not that of its folder.
    @Test func changeOfKnownInodeIsReplayed() throws {
        let container = try replaying()
        let folder = try container.cloud.add("d", [], kind: .directory)
        let row = try container.cloud.add("a", [1], in: folder.key)
        container.fs.replays.drop()
        _ = try container.lookup("d")
        _ = try container.lookup("a", in: folder.ino)
        container.fs.forget(folder.ino, 1)
        try container.cloud.remove(row.key)
        try container.cloud.add("after", [])
        #expect(try #require(container.fs.replays.next()).kind == .removeFile)
        container.fs.replays.finish(false)
    }

    @Test func failedReplayInvalidatesTheKernel() throws {
        let container = try replaying()
        _ = try container.lookup("a")
        try container.cloud.add("a", [])
        _ = try #require(container.fs.replays.next())
        container.fs.replays.finish(false)
        #expect(container.kernel.take() == [.entry(1, "a"), .listing(1)])
        try container.cloud.add("b", [])
        _ = try #require(container.fs.replays.next())
        // The replay reports success though the kernel sent no request.
        container.fs.replays.finish(true)
        #expect(container.kernel.take() == [.listing(1)])
    }

    @Test func localChangeDuringAReplayWins() throws {
        let container = try replaying()
        try container.cloud.add("a", [])
        try container.cloud.add("b", [])
        try container.unlink("a")
        let call = try #require(container.fs.replays.next())
        #expect(call.place.name == name("b"))
        try container.unlink("b")
        #expect(errno { _ = try container.fs.replayAnswers.make(parent: 1, name: name("b"), type: FileMode.file) } == .ECANCELED)
        container.fs.replays.finish(false)
        #expect(try container.names() == [])
    }

    @Test func replayedRemovalRemovesNothingExisting() throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        container.fs.replays.finishIfAny()
        _ = try container.lookup("a")
        try container.cloud.remove(row.key)
        let call = try #require(container.fs.replays.next())
        #expect(call.kind == .removeFile)
        // Only if the kernel's entry is known for sure.
        #expect(errno { try container.fs.replayAnswers.remove(parent: 1, name: name("a"), directory: false) } == .ESTALE)
        let shown = try container.fs.replayAnswers.lookup(parent: 1, name: name("a"))
        #expect(shown?.ino == row.ino && shown?.links == 1 && shown?.isVolatile == true)
        #expect(try container.lookup("a") == nil)
        let mine = try container.create("a", "mine")
        _ = try container.lookup("a")
        #expect(errno { try container.fs.replayAnswers.remove(parent: 1, name: name("a"), directory: false) } == .ECANCELED)
        container.fs.replays.finish(false)
        #expect(try container.lookup("a")?.ino == mine)
        #expect(container.kernel.take().contains(.listing(1)))
    }

    @Test func lateReplayRequestIsRefused() throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        let folder = try container.cloud.add("d", [], kind: .directory)
        container.fs.replays.finishIfAny()
        container.fs.replays.finishIfAny()
        _ = try container.lookup("a")
        try container.cloud.remove(row.key)
        _ = try #require(container.fs.replays.next())
        _ = try container.fs.replayAnswers.lookup(parent: 1, name: name("a"))
        container.fs.replays.finish(false)
        _ = try container.create("a", "new")
        #expect(errno { try container.fs.replayAnswers.remove(parent: 1, name: name("a"), directory: false) } == .ECANCELED)
        #expect(errno { try container.fs.replayAnswers.remove(parent: 1, name: name("d"), directory: true) } == .ECANCELED)
        #expect(
            errno {
                try container.fs.replayAnswers.rename(parent: 1, name: name("a"), newParent: folder.ino, newName: name("b"))
            } == .ECANCELED)
        #expect(errno { _ = try container.fs.replayAnswers.change(of: folder.ino) } == .ECANCELED)
        #expect(try container.names().sorted() == ["a", "d"])
    }

    /// The kernel caches the answer to a change of times, whatever news it got meanwhile.
    @Test func touchAnswerIsNotCached() throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        container.fs.replays.finishIfAny()
        _ = try container.lookup("a")
        let later = Timestamp(seconds: 2_000_000, nanoseconds: 0)
        try container.cloud.change(row.key, .attributes) { $0.modifiedAt = later }
        #expect(try #require(container.fs.replays.next()).kind == .touch)
        _ = try container.fs.replayAnswers.lookup(parent: 1, name: name("a"))
        #expect(try container.fs.replayAnswers.change(of: row.ino).isChanging)
        container.fs.replays.finish(true)
    }

    /// Attributes that a program sets on an open removed file stay set when the kernel learns of the removal.
    @Test func openRemovedItemKeepsItsAttributes() async throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        container.fs.replays.finishIfAny()
        _ = try container.lookup("a")
        let handle = try await container.open(row.ino)
        try container.cloud.remove(row.key)
        _ = try await container.set(row.ino, AttributeChanges(mode: 0o640), handle: handle)
        #expect(try #require(container.fs.replays.next()).kind == .removeFile)
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: name("a"))?.ino == row.ino)
        container.fs.replays.finish(false)
        #expect(try container.fs.attributes(of: row.ino, handle: handle).mode & 0o777 == 0o640)
        container.fs.release(handle)
    }

    @Test func replayUsesTheKernelsPath() throws {
        let container = try replaying()
        let folder = try container.cloud.add("old", [], kind: .directory)
        container.fs.replays.finishIfAny()
        _ = try container.lookup("old")
        let inside = try container.cloud.add("in", [], in: folder.key)
        let new = try ItemName("new")
        try container.cloud.change(folder.key, .moved) { $0.entry?.name = new }
        // The kernel gets the file's news before the folder's rename.
        let first = try #require(container.fs.replays.next())
        #expect(first.place == ReplayCall.Place(folder: name("old"), inode: folder.ino, name: name("in")))
        container.fs.replays.finish(false)
        let second = try #require(container.fs.replays.next())
        #expect(second.kind == .move && second.place.name == name("old") && second.target?.name == name("new"))
        container.fs.replays.finish(false)
        try container.cloud.remove(inside.key)
        let third = try #require(container.fs.replays.next())
        #expect(third.place.folder == name("new"))
        container.fs.replays.finish(false)
    }

    /// The item was moved, and then removed or moved on before the first event. Watchers know it by its old name.
    @Test(arguments: [false, true]) func movedOnItemIsReplayedFromItsShownName(isRemoved: Bool) throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        let folder = try container.cloud.add("d", [], kind: .directory)
        for _ in 0..<2 { container.fs.replays.finishIfAny() }
        _ = try container.lookup("a")
        let (b, c) = (try ItemName("b"), try ItemName("c"))
        try container.cloud.change(row.key, .moved) { $0.entry = ItemRow.Entry(parent: folder.key, name: b) }
        // The destination folder is unknown to the kernel; but the file's creation was not announced either.
        if isRemoved {
            try container.cloud.remove(row.key)
        } else {
            try container.cloud.change(row.key, .moved) { $0.entry?.name = c }
        }
        let call = try #require(container.fs.replays.next())
        #expect(call.place == ReplayCall.Place(folder: [], inode: 1, name: name("a")))
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: name("a"))?.ino == row.ino)
        if isRemoved {
            #expect(call.kind == .removeFile)
            try container.fs.replayAnswers.remove(parent: 1, name: name("a"), directory: false)
        } else {
            #expect(call.kind == .move && call.target?.name == name("c"))
            #expect(try container.fs.replayAnswers.lookup(parent: folder.ino, name: name("c")) == nil)
            try container.fs.replayAnswers.rename(parent: 1, name: name("a"), newParent: folder.ino, newName: name("c"))
        }
        container.fs.replays.finish(true)
    }

    /// Changes in a folder are replayed at the folder's place in the kernel.
    @Test func folderMovedOnIsReplayedFromItsShownPlace() throws {
        let container = try replaying()
        let folder = try container.cloud.add("d", [], kind: .directory)
        container.fs.replays.finishIfAny()
        _ = try container.lookup("d")
        let row = try container.cloud.add("f", [1], in: folder.key)
        container.fs.replays.finishIfAny()
        _ = try container.fs.lookup(parent: folder.ino, name: name("f")).immediate
        let e = try ItemName("e")
        try container.cloud.change(folder.key, .moved) { $0.entry?.name = e }
        try container.cloud.remove(row.key)
        try container.cloud.remove(folder.key)
        let inside = try #require(container.fs.replays.next())
        #expect(inside.kind == .removeFile && inside.place.folder == name("d"))
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: name("d"))?.ino == folder.ino)
        #expect(try container.lookup("d") == nil)
        container.fs.replays.finish(false)
        let last = try #require(container.fs.replays.next())
        #expect(last.kind == .removeDirectory && last.place == ReplayCall.Place(folder: [], inode: 1, name: name("d")))
        container.fs.replays.finish(false)
    }

    /// A file that the kernel knows as "a". Another device moved it to "b", which is not announced yet.
    private func moved() throws -> (TestContainer, ItemRow) {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        container.fs.replays.finishIfAny()
        _ = try container.lookup("a")
        let b = try ItemName("b")
        try container.cloud.change(row.key, .moved) { $0.entry?.name = b }
        return (container, row)
    }

    /// The same, with a removal during the call.
    @Test func removalDuringReplayOfAMoveUsesTheShownName() throws {
        let (container, row) = try moved()
        #expect(container.fs.replays.next()?.kind == .move)
        try container.cloud.remove(row.key)
        #expect(
            errno { try container.fs.replayAnswers.rename(parent: 1, name: name("a"), newParent: 1, newName: name("b")) }
                == .ECANCELED)
        container.fs.replays.finish(false)
        let call = try #require(container.fs.replays.next())
        #expect(call.kind == .removeFile && call.place.name == name("a"))
        container.fs.replays.finish(false)
    }

    /// Moved on by a local program, which the kernel knows.
    @Test func removalAfterLocalMoveUsesTheLocalName() throws {
        let (container, row) = try moved()
        try container.rename("b", to: "c")
        try container.cloud.remove(row.key)
        let call = try #require(container.fs.replays.next())
        #expect(call.kind == .removeFile && call.place.name == name("c"))
        container.fs.replays.finish(false)
    }

    @Test func replacementIsReplayedFromOutside() throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        container.fs.replays.finishIfAny()
        _ = try container.lookup("a")
        try container.cloud.replace(row.key, [1, 2, 3])
        let now = try #require(try container.index.row(key: row.key))
        let call = try #require(container.fs.replays.next())
        #expect(call.kind == .replace && call.target?.name == name("a"))
        let wings = try #require(try container.fs.replayAnswers.lookup(parent: 1, name: call.place.folder))
        #expect(wings.ino == call.place.inode && wings.isDirectory)
        #expect(try container.fs.replayAnswers.lookup(parent: wings.ino, name: call.place.name)?.ino == now.ino)
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: name("a"))?.ino == row.ino)
        try container.fs.replayAnswers.rename(parent: wings.ino, name: call.place.name, newParent: 1, newName: name("a"))
        container.fs.replays.finish(true)
        #expect(try container.lookup("a")?.ino == now.ino)
        #expect(container.raw.violation(whileIdle: true) == nil)
    }

    /// No item can have the name of the folder for replacements.
    @Test func replacementHidesNoItem() throws {
        let container = try replaying()
        let row = try container.cloud.add("a", [1])
        let other = try container.cloud.add(".ubiquity-arriving", [2])
        for _ in 0..<2 { container.fs.replays.finishIfAny() }
        _ = try container.lookup("a")
        try container.cloud.replace(row.key, [1, 2, 3])
        let call = try #require(container.fs.replays.next())
        #expect(call.kind == .replace && (try? ItemName(call.place.folder)) == nil)
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: call.place.folder)?.ino == call.place.inode)
        #expect(try container.fs.replayAnswers.lookup(parent: 1, name: name(".ubiquity-arriving"))?.ino == other.ino)
        #expect(throws: (any Error).self) { try container.fs.lookup(parent: 1, name: call.place.folder).immediate }
        container.fs.replays.finish(false)
    }

    @Test func moreThanWatchersCanKeepIsNotKept() throws {
        let container = try replaying()
        for number in 0..<(16_384 + 3) { try container.cloud.add("n\(number)", []) }
        #expect(container.kernel.take().count == 3)
        container.fs.replays.end()
        #expect(container.kernel.take().count == 16_384)
        #expect(container.fs.replays.next() == nil)
        try container.cloud.add("last", [])
        #expect(container.kernel.take() == [.listing(1)])
    }

    @Test func unwatchableChangeIsNotReplayed() throws {
        let container = try replaying()
        let folder = try container.cloud.add("d", [], kind: .directory)
        container.fs.replays.finishIfAny()
        let row = try container.cloud.add("a", [1], in: folder.key)
        try container.cloud.change(row.key, .attributes) { $0.mode = 0o600 }
        try container.cloud.add("b", [])
        #expect(container.fs.replays.next()?.place.name == name("b"))
        container.fs.replays.finish(false)
    }
}

extension ReplayCalls {
    /// Executes nothing, as if the call had failed.
    fileprivate func finishIfAny() {
        if next() != nil { finish(false) }
    }
}
