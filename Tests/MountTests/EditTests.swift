import Foundation
import Testing
import Ubiquity
import UbiquityControl
import UbiquityCore

/// An edit as other devices and other programs see it.
@Suite struct EditTests {
    @Test("RT-08: continuous writes do not make a version each")
    func writesGather() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo base > f")
            try await world.settle(a, b)
            try await a.python(
                """
                import time
                with open('f', 'ab', 0) as file:
                    for count in range(200):
                        file.write(b'x')
                        time.sleep(0.002)
                """)
            try await world.settle(a, b)
            #expect(try await b.shell("wc -c < f") == "205")
            let text = try await a.ubiquity("versions", "f", options: ["--json"]).text
            let report = try ControlCodec.decode(VersionsReport.self, from: text.utf8)
            // The first content, the last, and some between if the machine paused; not all 200.
            #expect((2..<20).contains(report.versions.count), "\(report.versions.count) versions")
        }
    }

    @Test("RT-03, RT-04: remote changes are announced between two marks, within relinquish and reacquire")
    func changesBetweenMarks() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("echo base > f")
            try await world.settle(a, b)
            try await b.shell("cat f")
            let editor = try await Editor.start(b, "f")
            for round in 1...10 {
                try await a.shell("echo new \(round) > f")
                try await world.eventually("round \(round) is over: \(editor.heard)") {
                    editor.heard.filter { $0 == "reacquire" }.count == round
                }
                // Metadata comes first, between its own marks.
                let heard = editor.heard
                let last = heard.lastIndex { $0.hasPrefix("ask relinquish-to-writer") }
                let asked = try #require(last, "\(heard)")
                let told: [String] = heard[(asked + 1)...].filter { !$0.hasPrefix("fields") }
                #expect(told == ["begin", "changed f", "end", "reacquire"], "\(asked) in \(heard)")
                try await world.settle(a, b)
            }
        }
    }

    @Test("RT-03: earlier news of an item is delivered before its relinquish request")
    func earlierNotificationsPrecedeARelinquish() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            let b = try world.device("b")
            // The notification about the metadata takes longer than the download of the content.
            try await b.mount(environment: ["UBIQUITY_FAULT": "presenters.tell:stall:1"])
            try await a.shell("echo base > f")
            try await world.settle(a, b)
            try await b.shell("cat f")
            let editor = try await Editor.start(b, "f")
            try await a.shell("echo new > f")
            try await editor.waitUntilHeard("reacquire")
            let told: [String] = editor.heard.filter { !$0.hasPrefix("fields") }
            #expect(
                Array(told.suffix(5)) == [
                    "ask relinquish-to-writer save-changes f", "begin", "changed f", "end", "reacquire",
                ], "\(told)")
        }
    }

    @Test("SA-04, DQ-05: values and live queries show a conflict")
    func conflicts() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir Documents; echo base > Documents/f")
            try await world.settle(a, b)
            try await b.shell("cat Documents/f")
            let query = MetadataQuery(
                predicate: .attribute(.hasUnresolvedConflicts), searchScopes: [.ubiquitousDocuments],
                container: URL(filePath: a.mountPoint), notificationBatchingInterval: .milliseconds(50))
            try await query.start()
            try await b.ubiquity("offline", "")
            try await b.shell("echo from b > Documents/f")
            try await a.shell("echo from a > Documents/f")
            try await a.waitUntilIdle()
            #expect(query.resultCount == 0)
            try await b.ubiquity("online", "")
            try await world.eventually("it is found") { query.results.map(\.fsName) == ["f"] }
            #expect(query.results.first?.conflictCount == 1)
            try await world.settle(a, b)
            for device in [a, b] {
                let values = try await UbiquitousItem(at: URL(filePath: "\(device.mountPoint)/Documents/f")).resourceValues()
                #expect(values.ubiquitousItemHasUnresolvedConflicts == true)
            }
            try await b.ubiquity("resolve", "Documents/f", options: ["--keep", "current"])
            try await world.eventually("it is no longer found") { query.resultCount == 0 }
            query.stop()
            #expect(query.isStopped)
        }
    }
}
