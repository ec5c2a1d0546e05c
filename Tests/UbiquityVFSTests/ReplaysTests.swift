import Testing
import UbiquityCore

@testable import UbiquityIndex
@testable import UbiquityVFS

@Suite struct ReplaysTests {
    /// The replaying thread gives up a hanging replay, whatever is being committed meanwhile.
    @Test func waitingReplaysCanBeDroppedDuringACommit() throws {
        let container = try TestContainer()
        let folder = try container.cloud.add("d", [], kind: .directory)
        let file = try container.cloud.add("f", [], in: folder.key)
        let replays = Replays()
        replays.turnOn()
        func remove(_ row: ItemRow) -> Bool {
            replays.add(IndexEvent(origin: .remote, kind: .removed, before: row, after: nil))
        }
        for _ in 0..<3 { #expect(remove(file)) }
        replays.adding {
            #expect(replays.removeAll().count == 3)
            #expect(remove(folder) && remove(file))
        }
        #expect(replays.next()?.row?.key == file.key)
        #expect(replays.next()?.row?.key == folder.key)
    }
}
