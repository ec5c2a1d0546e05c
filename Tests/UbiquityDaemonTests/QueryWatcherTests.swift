import Testing
import UbiquityCore
import UbiquityIndex
@testable import UbiquityDaemon

/// What is kept for a live query between its looks.
@Suite struct QueryWatcherTests {
    private func row(_ key: Int64, in parent: ItemKey = .root) -> ItemRow {
        let zero = Timestamp.zero
        return ItemRow(
            key: ItemKey(key), ino: UInt64(key), id: ItemID(high: 1, low: UInt64(key)), kind: .file, mode: 0o644, uid: 0,
            gid: 0, size: 0, createdAt: zero, modifiedAt: zero, changedAt: zero, linkTarget: [], xattrs: [],
            localXattrs: [], entry: ItemRow.Entry(parent: parent, name: ItemName(stored: Array("n\(key)".utf8))),
            version: nil, content: nil, contentState: .none, flags: [], dirty: [], dirtyOrder: 0, dirtyBase: .zero,
            dirtyAt: zero, generation: 0, nextVersion: nil, usedAt: zero)
    }

    @Test("DQ-01: what changes is kept once, and is gone when it is taken")
    func changesGather() async throws {
        let hub = QueryHub()
        #expect(!hub.hasWatchers)
        let (number, watcher) = try #require(hub.watch())
        hub.note([row(2), row(3)])
        hub.note([row(2, in: ItemKey(7))])
        let changes = watcher.take()
        #expect(Set(changes.items.keys) == [ItemKey(2), ItemKey(3)] && !changes.hasLost)
        #expect(changes.folders == [.root, ItemKey(7)])
        #expect(watcher.take().isEmpty)
        hub.forget(number)
        #expect(!hub.hasWatchers)
        // Two signs of what happened became one; then the stream ends.
        var signals = 0
        for await _ in watcher.signals { signals += 1 }
        #expect(signals == 1)
    }

    @Test("DQ-01: with too many changes none is kept but that there were too many")
    func boundedChanges() throws {
        let hub = QueryHub()
        let (_, watcher) = try #require(hub.watch())
        for key in 0...Int64(QueryWatcher.maximumItems) { hub.note([row(key + 2)]) }
        hub.note([row(2)])
        let changes = watcher.take()
        #expect(changes.hasLost && changes.items.isEmpty && !changes.isEmpty)
        hub.note([row(2)])
        #expect(watcher.take().items.count == 1)
    }

    @Test func watchersAreLimited() throws {
        let hub = QueryHub()
        for _ in 0..<QueryHub.maximumWatchers { _ = try #require(hub.watch()) }
        #expect(hub.watch() == nil)
        hub.close()
        #expect(!hub.hasWatchers && hub.watch() == nil)
    }
}
