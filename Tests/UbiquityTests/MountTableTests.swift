import Testing
import Ubiquity

@Suite struct MountTableTests {
    static let text = #"""
        22 28 0:20 / /proc rw,nosuid - proc proc rw
        28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
        40 28 0:35 / /home/a/Cloud rw shared:5 master:2 - fuse.ubiquity /home/a/state/local/default rw,user_id=0
        41 28 0:36 / /mnt/two\040words\134x rw - fuse.ubiquity /state/tab\011here rw
        42 40 0:37 / /home/a/Cloud/inner rw - tmpfs tmpfs rw
        43 28 0:35 /Documents /srv/docs rw - fuse.ubiquity /home/a/state/local/default rw
        44 28 0:38 / /mnt/twice rw - fuse.ubiquity /old rw
        45 28 0:39 / /mnt/twice rw - fuse.ubiquity /new rw
        not a line
        46 28 0:40 / /mnt/short - ext4
        """#

    let table = MountTable(parsing: Self.text.utf8)

    private func source(_ path: String) -> String? {
        table.mount(containing: Array(path.utf8)).map { String(decoding: $0.source, as: UTF8.self) }
    }

    @Test func readsEveryWholeLine() {
        #expect(table.entries.count == 8)
        #expect(table.entries[1].fileSystemType == "ext4")
        #expect(table.entries[2].isUbiquity)
        #expect(!table.entries[4].isUbiquity)
    }

    @Test func undoesTheKernelsEscapes() {
        #expect(table.entries[3].mountPoint == Array(#"/mnt/two words\x"#.utf8))
        #expect(table.entries[3].source == Array("/state/tab\there".utf8))
    }

    @Test func longestMountPointContainsAPath() {
        #expect(source("/home/a/Cloud") == "/home/a/state/local/default")
        #expect(source("/home/a/Cloud/x/y") == "/home/a/state/local/default")
        #expect(source("/home/a/Cloud/inner/x") == "tmpfs")
        #expect(source("/home/a/Clouds") == "/dev/sda1")
        #expect(source("/") == "/dev/sda1")
    }

    @Test func lastOfTwoMountsIsVisible() {
        #expect(source("/mnt/twice/x") == "/new")
        let shown = table.containers.map { String(decoding: $0.mountPoint, as: UTF8.self) }
        #expect(shown == ["/home/a/Cloud", #"/mnt/two words\x"#, "/srv/docs", "/mnt/twice"])
    }

    @Test func emptyTableHasNoMounts() {
        #expect(MountTable(parsing: []).entries.isEmpty)
        #expect(MountTable(parsing: []).mount(containing: Array("/a".utf8)) == nil)
    }
}
