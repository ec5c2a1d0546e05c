import Foundation
import Testing
import UbiquityControl

/// The output of commands about many items, in a mount's folder and for scripts.
@Suite struct BulkCommandTests {
    @Test func folderPrintsOneSumAndVerboseALinePerItem() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; for i in 1 2 3; do echo text > d/$i; done")
            try await world.settle(a, b)
            try await b.shell("cat d/1 > /dev/null")
            let folder = "\(b.mountPoint)/d"
            let first = try await b.ubiquity("download", "d")
            #expect(first.out == "downloaded 2 items in \(folder), 10 B; 1 already here\n", "\(first)")
            let again = try await b.ubiquity("download", "d/1")
            #expect(again.out == "\(folder)/1 is already here\n", "\(again)")
            let verbose = try await b.ubiquity("evict", "d", options: ["-v"])
            #expect(verbose.out.split(separator: "\n").count == 3, "\(verbose)")
            let quiet = try await b.ubiquity("pin", "d", options: ["-q"])
            #expect(quiet.status == 0 && quiet.out.isEmpty && quiet.err.isEmpty, "\(quiet)")
        }
    }

    @Test func commandsInAMountNeedNoPathAndPrintRelativeOnes() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            let program = World.program
            try await a.shell("mkdir d; echo text > d/gone; '\(program)' wait; rm d/gone; '\(program)' wait")
            let status = try await a.shell("'\(program)' status")
            #expect(status.hasPrefix(a.mountPoint) && !status.contains(b.mountPoint), "\(status)")
            #expect(status.contains("control.sock") && status.contains(" used"), "\(status)")
            let deleted = try await a.shell("cd d; '\(program)' trash list")
            #expect(deleted.split(whereSeparator: \.isWhitespace).last == "gone", "\(deleted)")
            let restored = try await a.shell("cd d; '\(program)' trash restore gone")
            #expect(restored.hasPrefix("restored gone "), "\(restored)")
        }
    }

    @Test func jsonErrorsAreJSONOnStandardError() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            for words in [
                ["status", "none"], ["download", "none"], ["versions", "none"], ["resolve", "none"], ["list", "none"],
                ["evict", "none"], ["evict", "/nowhere/at/all"],
            ] {
                let outcome = try await a.ubiquity(words[0], words[1], options: ["--json"])
                let line = try #require(outcome.err.split(separator: "\n").first, "\(words): \(outcome)")
                let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
                let error = try #require(object?["error"] as? [String: Any], "\(words): \(outcome)")
                #expect(error["code"] as? String == "notFound" && error["message"] is String, "\(words): \(outcome)")
                #expect(outcome.status == 1, "\(words): \(outcome)")
            }
            let wrong = try await world.ubiquity("wait", "--json", "--timeout", "-1")
            #expect(wrong.status == 2 && wrong.err.hasPrefix("{\"error\":"), "\(wrong)")
        }
    }

    @Test func mistypedCommandAndMissingFileAreNamed() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let typo = try await world.ubiquity("stauts")
            #expect(typo.status == 2 && typo.err.contains("did you mean 'ubiquity status'?"), "\(typo)")
            let missing = try await world.ubiquity("status", "/nowhere/at/all")
            #expect(missing.status == 1 && missing.err.contains("no such file or folder"), "\(missing)")
            let daemon = try #require(a.processID)
            let name = try String(contentsOfFile: "/proc/\(daemon)/comm", encoding: .utf8)
            #expect(name == "ubiquity\n")
        }
    }

    @Test func removingThePinAttributeUnpins() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("echo text > f; setfattr -n user.ubiquity.pinned -v 1 f")
            #expect(try await a.attribute("is-pinned", of: "f") == "1")
            try await a.shell("setfattr -x user.ubiquity.pinned f")
            #expect(try await a.attribute("is-pinned", of: "f") == "0")
        }
    }
}
