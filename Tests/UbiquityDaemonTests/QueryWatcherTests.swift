import Testing
import UbiquityCore
@testable import UbiquityIndex
@testable import UbiquityDaemon

/// The data kept for a live query between its reads.
@Suite struct QueryWatcherTests {
    private func row(_ key: Int64, in parent: ItemKey = .root, _ kind: ItemKind = .file, _ xattrs: [Xattr] = []) -> ItemRow {
        let zero = Timestamp.zero
        return ItemRow(
            key: ItemKey(key), ino: UInt64(key), id: ItemID(high: 1, low: UInt64(key)), kind: kind, mode: 0o644, uid: 0,
            gid: 0, size: 0, createdAt: zero, modifiedAt: zero, changedAt: zero, linkTarget: [], xattrs: xattrs,
            localXattrs: [], entry: ItemRow.Entry(parent: parent, name: ItemName(stored: Array("n\(key)".utf8))),
            version: nil, content: nil, contentState: .none, flags: [], dirty: [], dirtyOrder: 0, dirtyBase: .zero,
            dirtyAt: zero, generation: 0, nextVersion: nil, usedAt: zero)
    }

    @Test("DQ-01: a changed item is kept once, and dropped when it is read")
    func changesGather() async throws {
        let hub = QueryHub()
        #expect(!hub.hasWatchers)
        let watch = try #require(hub.watch())
        let watcher = watch.watcher
        hub.note([row(2), row(3)])
        hub.note([row(2, in: ItemKey(7))])
        let changes = watcher.take()
        #expect(Set(changes.items.keys) == [ItemKey(2), ItemKey(3)] && !changes.hasLost)
        #expect(changes.folders == [.root, ItemKey(7)])
        #expect(watcher.take().isEmpty)
        watch.end()
        #expect(!hub.hasWatchers)
        // Two signals were merged; then the stream ends.
        var signals = 0
        for await _ in watcher.signals { signals += 1 }
        #expect(signals == 1)
    }

    @Test("DQ-01: beyond the limit of changes only an overflow mark is kept")
    func boundedChanges() throws {
        let hub = QueryHub()
        let watch = try #require(hub.watch())
        let watcher = watch.watcher
        for key in 0...Int64(QueryWatcher.maximumItems) { hub.note([row(key + 2)]) }
        hub.note([row(2)])
        let changes = watcher.take()
        #expect(changes.hasLost && changes.items.isEmpty && !changes.isEmpty)
        hub.note([row(2)])
        #expect(watcher.take().items.count == 1)
    }

    @Test func watchersAreLimited() throws {
        let hub = QueryHub()
        var watches = [QueryWatch]()
        for _ in 0..<QueryHub.maximumWatchers { watches.append(try #require(hub.watch())) }
        #expect(hub.watch() == nil)
        // A client that is gone before its answer begins uses no slot.
        watches.removeLast()
        watches.append(try #require(hub.watch()))
        watches = []
        #expect(!hub.hasWatchers)
        hub.close()
        #expect(hub.watch() == nil)
    }

    @Test("DQ-01: a folder that becomes a package, or stops being one, is examined with its items")
    func packageMarks() throws {
        func change(_ before: [Xattr], _ after: [Xattr]) -> IndexEvent {
            IndexEvent(
                origin: .local, kind: .attributes, before: row(2, in: .root, .directory, before),
                after: row(2, in: .root, .directory, after))
        }
        let mark = Xattr(name: PackageRules.mark, value: Array("1".utf8))
        let other = Xattr(name: Array("user.colour".utf8), value: Array("1".utf8))
        for (before, after, isMoved) in [([], [mark], true), ([mark], [other], true), ([mark], [mark, other], false)] {
            var changes = QueryChanges()
            changes.note(change(before, after))
            #expect(changes.movedFolders == (isMoved ? [ItemKey(2)] : []) && changes.items.count == 1)
        }
    }
}
