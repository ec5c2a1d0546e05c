import Glibc
import Testing
import UbiquityControl

/// Announcements of conflicts to people and programs.
@Suite struct ConflictAnnouncementTests {
    /// Outside of `Documents/` two files of one name become one item with a conflict version.
    @Test func nameClashOutsideDocumentsIsAnnounced() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d")
            try await world.settle(a, b)
            let monitor = try world.start([World.program, "monitor", "--json", a.mountPoint])
            try await world.eventually("it listens") { monitor.outputSoFar.contains("listening") }
            try await world.meet(a, "echo 1 > d/same.txt", b, "echo two > d/same.txt")
            for device in [a, b] {
                let folder = try await device.ubiquity("status", "d")
                #expect(folder.status == 0 && folder.out.contains("1 conflict version"), "\(folder)")
                #expect(try await device.attribute("has-unresolved-conflicts", of: "d") == "1")
            }
            try await world.eventually("an event announces it") {
                try monitor.outputSoFar.split(separator: "\n").dropLast().contains { line in
                    let event = try ControlCodec.decode(ControlEvent.self, from: line.utf8)
                    return event.kind == .versionGained && event.isConflict == true && event.path == "d/same.txt"
                }
            }
            for device in [a, b] {
                try await world.eventually("\(device.name)'s log has it") {
                    let lines = try await world.shell("grep 'conflict: two devices' '\(device.log)' || true")
                    return lines.split(separator: "\n").count == 1 && lines.contains("path=d/same.txt")
                        && lines.contains("other name=same.txt") && lines.contains("device=a") && lines.contains("device=b")
                }
            }
            monitor.signal(SIGINT)
            try await monitor.finish()
        }
    }

    @Test func nextInteractiveCommandAnnouncesAConflictOnce() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await world.settle(a, b)
            try await world.meet(a, "echo 1 > same.txt", b, "echo two > same.txt")
            func haveNotices(_ expected: Bool) async throws -> Bool {
                for device in [a, b] {
                    let file = "\(device.containerState)/new-conflicts.json"
                    guard try await world.attempt(["test", "-e", file]).status == (expected ? 0 : 1) else { return false }
                }
                return true
            }
            try await world.eventually("both daemons have noticed it") { try await haveNotices(true) }
            let piped = try await a.ubiquity("status", "same.txt")
            #expect(piped.status == 0 && !piped.err.contains("new conflict"), "\(piped)")
            let item = a.mountPoint + "/same.txt"
            try await Tools.type(
                [(seen: "1 new conflict: \(item) (changed on", keys: "")], into: [World.program, "status", item], in: world)
            #expect(try await haveNotices(false))

            try await world.meet(a, "echo 1 > other.txt", b, "echo two > other.txt")
            try await world.eventually("both daemons have noticed it") { try await haveNotices(true) }
            try await b.ubiquity("resolve", "other.txt")
            try await world.eventually("a resolved conflict is not announced") { try await haveNotices(false) }
        }
    }
}
