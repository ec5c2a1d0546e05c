import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

@Suite struct AttributeTests {
    let fixture: Fixture
    init() throws { fixture = try Fixture() }

    private func name(_ text: String) -> [UInt8] { Array(text.utf8) }

    @Test func attributesThatDifferAreDirty() throws {
        try fixture.file("a", mode: 0o644)
        var row = try fixture.confirm("a")
        fixture.time.advance()
        row = try fixture.index.setAttributes(ino: row.ino, AttributeChange(mode: 0o100644, uid: 5, gid: 6))
        #expect(row.dirty == [] && row.uid == 5 && row.gid == 6 && row.changedAt == fixture.time.now())
        row = try fixture.index.setAttributes(ino: row.ino, AttributeChange(mode: 0o4755))
        #expect(row.dirty == .mode && row.mode == 0o4755)
        row = try fixture.index.setAttributes(ino: row.ino, AttributeChange(modifiedAt: .zero))
        #expect(row.dirty == [.mode, .times] && row.modifiedAt == .zero && row.dirtyAt == fixture.time.now())
        #expect(try fixture.found("a") == row)
        expect(.stale) { _ = try fixture.index.setAttributes(ino: 1 << 40, AttributeChange(mode: 0)) }
    }

    /// As on ext4: the time of the last change stays, and nothing is uploaded.
    @Test func settingAnXattrToItsValueChangesNothing() throws {
        try fixture.file("a")
        let ino = try fixture.confirm("a").ino
        for name in ["user.a", "security.b"] {
            let xattr = Xattr(name: self.name(name), value: [1])
            try fixture.index.setXattr(ino: ino, xattr, .create)
            let row = try fixture.confirm("a")
            fixture.time.advance()
            for mode in [ItemIndex.XattrMode.any, .replace] { try fixture.index.setXattr(ino: ino, xattr, mode) }
            #expect(try fixture.found("a") == row)
            expect(.alreadyExists) { try fixture.index.setXattr(ino: ino, xattr, .create) }
            try fixture.index.setXattr(ino: ino, Xattr(name: self.name(name), value: [2]), .any)
            #expect(try fixture.found("a").changedAt == fixture.time.now())
        }
    }

    /// The last change has its time in `dirtyAt`.
    @Test func earlierChangeKeepsItsTime() throws {
        let ino = try fixture.file("a").ino
        func set(_ name: String) throws {
            fixture.time.advance()
            try fixture.index.setXattr(ino: ino, Xattr(name: self.name(name), value: [1]), .any)
        }
        // The cloud has not seen it, so nobody else has changed it. The set of changed attributes counts all the same:
        // they may be reverted during the upload.
        _ = try fixture.index.setAttributes(ino: ino, AttributeChange(mode: 0o600))
        try set("user.a")
        #expect(try fixture.found("a").dirtyTimes.map(\.field) == [.xattr(name("user.a"))])
        try fixture.confirm("a")
        let first = fixture.time.now()
        _ = try fixture.index.setAttributes(ino: ino, AttributeChange(mode: 0o640))
        #expect(try fixture.found("a").dirtyTimes == [])
        try set("user.b")
        let second = fixture.time.now()
        try set("user.c")
        fixture.time.advance()
        _ = try fixture.index.setAttributes(ino: ino, AttributeChange(modifiedAt: .zero))
        let b = FieldTime.Field.xattr(name("user.b")), c = FieldTime.Field.xattr(name("user.c"))
        var row = try fixture.found("a")
        #expect(row.dirtyTimes[.mode] == first && row.dirtyTimes[b] == second && row.dirtyTimes[.times] == nil)
        #expect(row.dirtyTimes.count == 3)
        try fixture.index.close()
        let index = try fixture.reopened()
        #expect(try index.row(ino: ino) == row)
        fixture.time.advance()
        row = try index.setAttributes(ino: ino, AttributeChange(mode: 0o644))
        #expect(row.dirtyTimes[.mode] == nil && row.dirtyTimes[.times] != nil)
        let fields = ChangedFields(mode: 0, xattrsRemoved: [name("user.c")])
        #expect(row.earlierTimes(of: fields).map(\.field) == [c])
        row.dirty = .mode
        #expect(row.dirtyTimes == [])
    }

    @Test func topFolderIsNeverDirty() throws {
        let row = try fixture.index.setAttributes(ino: 1, AttributeChange(mode: 0o700, modifiedAt: .zero))
        #expect(row.mode == 0o700 && row.dirty == [])
        try fixture.index.setXattr(ino: 1, Xattr(name: name("user.a"), value: [1]), .any)
        #expect(try fixture.found("").xattrs.count == 1)
        fixture.check()
    }

    @Test func xattrModesAreEnforced() throws {
        let file = try fixture.file("a")
        try fixture.confirm("a")
        let one = Xattr(name: name("user.one"), value: [1, 0, 255])
        expect(.noSuchAttribute) { try fixture.index.setXattr(ino: file.ino, one, .replace) }
        try fixture.index.setXattr(ino: file.ino, one, .create)
        expect(.alreadyExists) { try fixture.index.setXattr(ino: file.ino, one, .create) }
        var row = try fixture.found("a")
        #expect(row.xattrs == [one] && row.dirty == .xattrs)
        let changed = Xattr(name: name("user.one"), value: [])
        try fixture.index.setXattr(ino: file.ino, changed, .replace)
        try fixture.index.setXattr(ino: file.ino, Xattr(name: name("user.ab"), value: [2]), .any)
        row = try fixture.found("a")
        #expect(row.xattrs == [Xattr(name: name("user.ab"), value: [2]), changed])
        expect(.noSuchAttribute) { try fixture.index.removeXattr(ino: file.ino, named: name("user.none")) }
        try fixture.index.removeXattr(ino: file.ino, named: name("user.one"))
        #expect(try fixture.found("a").xattrs.map(\.name) == [name("user.ab")])
    }

    @Test func sameValueSendsNothing() throws {
        let file = try fixture.file("a")
        let one = Xattr(name: name("user.one"), value: [1])
        try fixture.index.setXattr(ino: file.ino, one, .any)
        try fixture.confirm("a")
        try fixture.index.setXattr(ino: file.ino, one, .any)
        #expect(try fixture.found("a").dirty == [])
    }

    @Test func namesOutsideUserStayHere() throws {
        let file = try fixture.file("a")
        try fixture.confirm("a")
        let local = Xattr(name: name("security.capability"), value: [9])
        try fixture.index.setXattr(ino: file.ino, local, .any)
        let row = try fixture.found("a")
        #expect(row.localXattrs == [local] && row.xattrs == [] && row.dirty == [])
        try fixture.index.removeXattr(ino: file.ino, named: local.name)
        #expect(try fixture.found("a").localXattrs == [])
    }

    @Test func attributesAreLimited() throws {
        let file = try fixture.file("a")
        let attribute = name("user.a")
        let largest = [UInt8](repeating: 7, count: Limits.maximumXattrBytes - attribute.count)
        expect(.noSpace) {
            try fixture.index.setXattr(ino: file.ino, Xattr(name: attribute, value: largest + [1]), .any)
        }
        try fixture.index.setXattr(ino: file.ino, Xattr(name: attribute, value: largest), .any)
        expect(.noSpace) { try fixture.index.setXattr(ino: file.ino, Xattr(name: name("user.b"), value: []), .any) }
        #expect(try fixture.found("a").xattrs == [Xattr(name: attribute, value: largest)])
        try fixture.index.setXattr(ino: file.ino, Xattr(name: attribute, value: [1]), .replace)
    }

    // MARK: Content

    @Test func openForWritingIsRecorded() throws {
        try fixture.file("a")
        var row = try fixture.confirm("a")
        fixture.time.advance()
        row = try fixture.index.beginWriting(ino: row.ino)
        #expect(row.isWriting && row.usedAt == fixture.time.now() && row.dirty == [])
        #expect(try fixture.index.interruptedWriters() == [row])
        let modified = Timestamp(seconds: 77, nanoseconds: 1)
        row = try fixture.index.noteWriting(
            ino: row.ino, changed: true, size: 10, modifiedAt: modified, stillOpen: true)
        #expect(row.isWriting && row.size == 10 && row.modifiedAt == modified && row.generation == 1)
        #expect(row.dirty == [.content, .times] && row.flags.contains(.keptCurrent))
        row = try fixture.index.noteWriting(ino: row.ino, changed: false, size: 99, modifiedAt: .zero, stillOpen: false)
        #expect(!row.isWriting && row.size == 10 && row.generation == 1 && row.modifiedAt == modified)
        #expect(try fixture.index.interruptedWriters() == [])
        #expect(try fixture.index.read { try $0.dirtyBytes() } == 10)
    }

    /// The close may come late: a write counts from its own time. This holds for a new file, which may be in a package
    /// that another device has changed meanwhile, and for a file at the cloud.
    @Test func lateRecordedWriteKeepsItsTime() throws {
        let ino = try fixture.file("a").ino
        func write(secondsAgo: Double?) throws -> ItemRow {
            fixture.time.advance(seconds: 10)
            return try fixture.index.noteWriting(
                ino: ino, changed: true, size: 1, modifiedAt: .zero, changedAt: nil,
                writtenAt: secondsAgo.map { fixture.time.now().advanced(bySeconds: -$0) }, stillOpen: false)
        }
        func expect(_ row: ItemRow, secondsAgo: Double, _ location: SourceLocation = #_sourceLocation) {
            let now = fixture.time.now()
            #expect(row.dirtyAt == now && row.lastChange == now.advanced(bySeconds: -secondsAgo), sourceLocation: location)
        }
        for isNew in [true, false] {
            if !isNew { try fixture.confirm("a") }
            var row = try write(secondsAgo: 3)
            expect(row, secondsAgo: 3)
            #expect(row.earlierTimes(of: ChangedFields(mode: 0, modifiedAt: .zero)).map(\.field) == [.times])
            // Later changes have their own time, also if they come before the close.
            fixture.time.advance()
            row = try fixture.index.setAttributes(ino: ino, AttributeChange(mode: isNew ? 0o600 : 0o640))
            expect(row, secondsAgo: 0)
            expect(try write(secondsAgo: 10.5), secondsAgo: 10)
            expect(try write(secondsAgo: 2), secondsAgo: 2)
            // At once if a mapping hides the time of the write, or if the clock differs.
            for moment in [0.001, nil, 100_000] { expect(try write(secondsAgo: moment), secondsAgo: 0) }
            #expect(try fixture.found("a").dirtyTimes[.content] == nil)
        }
    }

    @Test func newContentIsANewVersion() throws {
        let made = try fixture.file("a")
        try fixture.index.write(.remote) { transaction in
            var row = made
            row.nextVersion = VersionID(high: 1, low: 2)
            try transaction.update(row, before: made)
        }
        let row = try fixture.index.noteWriting(
            ino: made.ino, changed: true, size: 1, modifiedAt: .zero, stillOpen: false)
        #expect(row.nextVersion == nil)
    }

    @Test func writingARemovedFileIsStale() throws {
        let file = try fixture.file("a")
        try fixture.remove("a")
        expect(.stale) { _ = try fixture.index.beginWriting(ino: file.ino) }
        expect(.stale) {
            _ = try fixture.index.noteWriting(
                ino: file.ino, changed: true, size: 1, modifiedAt: .zero, stillOpen: false)
        }
        expect(.stale) {
            _ = try fixture.index.replaceContent(ino: file.ino, with: ContentID(9), isWriting: true)
        }
        // The tombstone is not reachable by its own number either.
        let tombstone = try #require(try fixture.index.read { try $0.row(key: file.key) })
        expect(.stale) { _ = try fixture.index.beginWriting(ino: tombstone.ino) }
    }

    @Test func truncationOfAPlaceholder() throws {
        try fixture.file("a")
        try fixture.confirm("a")
        let placeholder = try fixture.evict("a")
        try fixture.index.write(.local) { transaction in
            var row = placeholder
            row.size = 500
            row.flags.insert(.downloadRequested)
            try transaction.update(row, before: placeholder)
        }
        fixture.time.advance()
        let content = ContentID(try fixture.index.newContentNumber())
        let (before, after) = try fixture.index.replaceContent(ino: placeholder.ino, with: content, isWriting: true)
        #expect(before.size == 500 && before.content == nil)
        #expect(after.content == content && after.contentState == .complete && after.size == 0)
        #expect(after.isWriting && after.dirty == [.content, .times] && after.ino == placeholder.ino)
        #expect(after.version == placeholder.version && after.modifiedAt == fixture.time.now())
        #expect(!after.flags.contains(.downloadRequested))
        #expect(try fixture.found("a") == after)
        fixture.check()
    }

    @Test func truncationForgetsTheOldContent() throws {
        let made = try fixture.file("a")
        let old = try #require(made.content)
        let record = ContentRecord(
            content: old, version: VersionID(high: 0, low: 1), size: 3, manifest: [], unsyncedBoot: nil)
        try fixture.index.write(.remote) { try $0.setContent(record) }
        let content = ContentID(try fixture.index.newContentNumber())
        let (before, after) = try fixture.index.replaceContent(ino: made.ino, with: content, isWriting: false)
        #expect(before.content == old && !after.isWriting)
        #expect(try fixture.index.read { try $0.contentRecord(old) } == nil)
        #expect(try fixture.index.read { try $0.contentsInUse() }.ids == [content])
    }

    @Test func useIsRecorded() throws {
        let file = try fixture.file("a")
        fixture.time.advance()
        let time = fixture.time.now()
        fixture.time.advance()
        try fixture.index.noteUses([(ino: file.ino, time: time), (ino: 999_999, time: time)])
        #expect(try fixture.found("a").usedAt == time)
    }
}
