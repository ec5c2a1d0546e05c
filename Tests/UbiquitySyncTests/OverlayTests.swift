import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySync

@Suite struct OverlayTests {
    private func xattr(_ name: String, _ value: String) -> Xattr {
        Xattr(name: Array(name.utf8), value: Array(value.utf8))
    }

    @Test func recordFieldsApplyExceptLocalChanges() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"))
        let row = try fixture.found("a")
        _ = try fixture.index.setAttributes(ino: row.ino, AttributeChange(mode: 0o600))
        var item = fixture.file(1, "a", at: 2)
        item.mode = 0o755
        item.modifiedAt = Timestamp(seconds: 5, nanoseconds: 0)
        let merged = Overlay.metadata(try fixture.found("a"), old: nil, new: item, keepTimes: false)
        #expect(merged.mode == 0o600)
        #expect(merged.modifiedAt == item.modifiedAt)
    }

    @Test func timesStayWithTheirContent() throws {
        let fixture = try Fixture()
        try fixture.receive(fixture.file(1, "a"))
        let row = try fixture.found("a")
        var item = fixture.file(1, "a", at: 2)
        item.modifiedAt = Timestamp(seconds: 5, nanoseconds: 0)
        #expect(Overlay.metadata(row, old: nil, new: item, keepTimes: true).modifiedAt == row.modifiedAt)
    }

    @Test func attributesAreMergedOneByOne() {
        let base = [xattr("a", "1"), xattr("b", "1"), xattr("c", "1")]
        let local = [xattr("a", "2"), xattr("c", "1"), xattr("d", "2")]
        let remote = [xattr("a", "3"), xattr("b", "3"), xattr("c", "3"), xattr("e", "3")]
        let merged = Overlay.merged(local: local, base: base, remote: remote)
        #expect(merged == [xattr("a", "2"), xattr("c", "3"), xattr("d", "2"), xattr("e", "3")])
    }

    @Test func differenceTransformsOneListIntoTheOther() {
        let old = [xattr("a", "1"), xattr("b", "1")], new = [xattr("b", "2"), xattr("c", "1")]
        let difference = Overlay.difference(from: old, to: new)
        #expect(difference.set == [xattr("b", "2"), xattr("c", "1")])
        #expect(difference.removed == [Array("a".utf8)])
        #expect(Overlay.merged(local: new, base: old, remote: old) == new)
    }

    @Test func linkTextFollowsTheRecord() throws {
        let fixture = try Fixture()
        let row = try fixture.make("link", .symlink)
        var item = fixture.folder(1, "link")
        item.linkTarget = [66, 67]
        let merged = Overlay.metadata(row, old: nil, new: item, keepTimes: false)
        #expect(merged.linkTarget == [66, 67])
        #expect(merged.size == 2)
    }
}
