import Foundation
import Testing
import Ubiquity
import UbiquityControl
import UbiquityCore

/// Queries on real mounts: from the command line, by the library, and by plain HTTP.
@Suite struct QueryTests {
    private func paths(_ device: Device, _ options: String...) async throws -> [String] {
        let outcome = try await device.world.attempt([World.program, "list", "--json"] + options + [device.mountPoint])
        try #require(outcome.status == 0, "\(outcome)")
        return try outcome.out.split(separator: "\n").map {
            let record = try ControlCodec.decode(MetadataRecord.self, from: $0.utf8)
            return String(record.item.path.dropFirst(device.mountPoint.count + 1))
        }
    }

    @Test("DQ-02, DQ-03, DQ-04, DQ-05, DQ-07, DQ-08, MP-11: scopes and predicates, here or not, without a download")
    func listing() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell(
                """
                mkdir -p Documents/sub Documents/p.rtfd data x.nosync; echo hi > Documents/a.txt; echo d > data/d
                head -c 300000 /dev/urandom > Documents/sub/big; echo t > Documents/p.rtfd/TXT.rtf; echo l > x.nosync/l
                touch -d 2020-01-02T03:04:05Z Documents/a.txt
                """)
            try await world.settle(a, b)
            // So that nothing is downloaded automatically: no news, or an answer without news.
            try await b.ubiquity("offline", "")
            let before = try await b.status().bytesReceived
            let documents = ["Documents/a.txt", "Documents/p.rtfd", "Documents/sub", "Documents/sub/big"]
            #expect(try await paths(b, "--scope", "documents") == documents)
            #expect(try await paths(b, "--scope", "data") == ["data", "data/d"])
            #expect(try await paths(b) == documents + ["data", "data/d"])
            // No file is wholly local, so no folder is.
            #expect(try await paths(b, "--scope", "local") == [])
            #expect(
                try await paths(a, "--scope", "local")
                    == ["Documents"] + documents + ["data", "data/d", "x.nosync", "x.nosync/l"])
            #expect(try await paths(b, "--query", "size > 100K and status == not-downloaded") == ["Documents/sub/big"])
            #expect(try await paths(b, "--query", "name like '*.txt' and modified < 2021-01-01") == ["Documents/a.txt"])
            #expect(try await paths(b, "--query", "is-package") == ["Documents/p.rtfd"])
            #expect(try await paths(b, "--query", "path within data") == ["data", "data/d"])
            #expect(try await paths(b, "--query", "conflicts or not is-uploaded") == [])
            #expect(try await b.status().bytesReceived == before)
            try await b.ubiquity("online", "")
            // The values are those of the attributes.
            try await b.shell("cat Documents/a.txt")
            let text = try await world.ubiquity("list", "--json", "--query", "name == a.txt", b.mountPoint).text
            let record = try ControlCodec.decode(MetadataRecord.self, from: text.utf8)
            let attributes = try await b.attributes(of: "Documents/a.txt")
            #expect(record.item.downloadingStatus.rawValue == attributes["downloading-status"])
            #expect(record.item.itemID == attributes["item-id"] && record.item.versionID == attributes["version-id"])
            #expect(record.item.isUploaded && attributes["is-uploaded"] == "1")
            #expect(record.item.size == 3 && record.modifiedAt == 1_577_934_245 && record.name == "a.txt")
            // A folder, or one file, is listed by its path; an invalid query is wrong usage.
            #expect(try await b.ubiquity("list", "Documents/sub").out.contains("Documents/sub/big"))
            #expect(try await b.ubiquity("list", "Documents/a.txt").out.split(separator: "\n").count == 1)
            #expect(try await b.ubiquity("list", "missing").status == 1)
            let wrong = try await b.ubiquity("list", "", options: ["--query", "size > much"])
            #expect(wrong.status == 2 && wrong.err.contains("not a value of size"))
        }
    }

    /// The lines of `list --watch --json`.
    private struct Line: Decodable {
        var change: String
        var item: MetadataRecord?
        var oldPath: String?
        var itemID: String?
    }

    @Test("DQ-01, DQ-05: a watched listing reports changes of other devices and programs")
    func watching() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p Documents/d; echo 1 > Documents/d/1.txt; echo 2 > Documents/2.txt")
            try await world.settle(a, b)
            let watch = try world.start(
                [World.program, "list", "--watch", "--json", "--query", "name like '*.txt'", b.mountPoint + "/Documents"])
            func lines() throws -> [Line] {
                var lines = watch.outputSoFar.split(separator: "\n", omittingEmptySubsequences: false)
                // The last line may still be incomplete.
                lines.removeLast()
                return try lines.map { try ControlCodec.decode(Line.self, from: $0.utf8) }
            }
            func tells(_ change: String, _ name: String, _ holds: (MetadataRecord) -> Bool = { _ in true }) async throws {
                try await world.eventually("it prints that \(name) is \(change): \(watch.outputSoFar.suffix(2000))") {
                    try lines().contains {
                        $0.change == change && ($0.item.map { $0.item.path.hasSuffix(name) && holds($0) } ?? false)
                    }
                }
            }
            try await world.eventually("it has gathered") { try lines().contains { $0.change == "gathered" } }
            let first = try lines().map(\.change)
            #expect(first == ["found", "found", "gathered"])
            try await a.shell("echo 3 > Documents/3.txt; echo x > Documents/x; mkdir data; echo 4 > data/4.txt")
            try await tells("added", "Documents/3.txt") { $0.item.downloadingStatus == .notDownloaded }
            try await b.shell("cat Documents/3.txt")
            try await tells("changed", "Documents/3.txt") { $0.item.downloadingStatus == .current }
            // A folder that moves takes its entries along, here within the query's folder and then out of it.
            try await a.shell("mv Documents/d Documents/e")
            try await tells("changed", "Documents/e/1.txt")
            let moved = try lines().first { $0.item?.item.path.hasSuffix("e/1.txt") ?? false }
            let id = try #require(moved?.item?.id)
            #expect(moved?.oldPath?.hasSuffix("Documents/d/1.txt") ?? false)
            try await b.shell("mv Documents/e data/")
            try await world.eventually("it is gone") { try lines().contains { $0.change == "removed" && $0.itemID == id } }
            try await a.shell("mv Documents/x Documents/x.txt")
            try await tells("added", "Documents/x.txt")
            try await a.shell("rm Documents/x.txt")
            try await world.eventually("both are gone") { try lines().filter { $0.change == "removed" }.count == 2 }
            let outside = try lines().filter { $0.item?.item.path.contains("data/") ?? false }
            #expect(outside.isEmpty)
            try await b.unmount()
            #expect(try await watch.finish().status == 0)
        }
    }

    @Test("DQ-01, VC-01: folders show the conflicts of their items, also after moves")
    func conflicts() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p d/e f; echo base > d/e/x")
            try await world.settle(a, b)
            let query = MetadataQuery(
                predicate: .attribute(.hasUnresolvedConflicts), container: URL(filePath: b.mountPoint),
                notificationBatchingInterval: .milliseconds(50))
            try await query.start()
            func tells(_ paths: String...) async throws {
                try await world.eventually("\(paths) show conflicts: \(query.results.map(\.relativePath))") {
                    Set(query.results.map(\.relativePath)) == Set(paths)
                }
            }
            try await world.meet(a, "echo a > d/e/x", b, "echo b > d/e/x")
            try await tells("d", "d/e", "d/e/x")
            try await b.shell("mv d/e/x d/y")
            try await tells("d", "d/y")
            try await a.shell("mv d f/g")
            try await tells("f", "f/g", "f/g/y")
            try await b.shell("rm f/g/y")
            try await tells()
        }
    }

    @Test func foldersShowTheStateOfTheirItems() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir -p d/e f; echo base > d/e/x; echo other > f/y")
            try await world.settle(a, b)
            func query(_ device: Device, _ predicate: MetadataPredicate) async throws -> MetadataQuery {
                let query = MetadataQuery(
                    predicate: predicate, container: URL(filePath: device.mountPoint),
                    notificationBatchingInterval: .milliseconds(50))
                try await query.start()
                return query
            }
            func expect(_ query: MetadataQuery, _ paths: String...) async throws {
                try await world.eventually("\(paths) are the results: \(query.results.map(\.relativePath))") {
                    Set(query.results.map(\.relativePath)) == Set(paths)
                }
            }
            let away = try await query(b, !.attribute(.isDownloaded)), pending = try await query(a, !.attribute(.isUploaded))
            try await expect(away, "d", "d/e", "d/e/x", "f", "f/y")
            try await b.shell("cat d/e/x")
            try await expect(away, "f", "f/y")
            try await expect(pending)
            try await a.ubiquity("offline", "")
            try await a.shell("echo more >> d/e/x")
            try await expect(pending, "d", "d/e", "d/e/x")
            try await a.ubiquity("online", "")
            try await expect(pending)
        }
    }

    @Test("DQ-01: the library's query gathers, updates, and freezes on request")
    func library() async throws {
        try await World.run { world in
            let a = try await world.mounted("a")
            try await a.shell("mkdir -p Documents; for i in $(seq 30); do echo $i > Documents/$i.txt; done; echo x > Documents/x")
            let query = MetadataQuery(
                predicate: .name(.like, "*.txt"), searchScopes: [.ubiquitousDocuments],
                sortDescriptors: [MetadataQuery.SortDescriptor(.fsName, order: .reverse)],
                container: URL(filePath: a.mountPoint), notificationBatchingInterval: .milliseconds(50))
            var updates = query.updates.makeAsyncIterator()
            try await query.start()
            var gathered = 0
            while let event = try await updates.next(), event.kind != .didFinishGathering {
                gathered += event.addedItems.count
            }
            #expect(gathered == 30 && query.results.first?.fsName == "9.txt" && query.results.last?.fsName == "1.txt")
            #expect(!query.isGathering && query.isStarted && !query.isStopped)
            query.disableUpdates()
            try await a.shell("rm Documents/9.txt; mv Documents/x Documents/x.txt; echo more >> Documents/5.txt")
            // Another one sees it.
            let other = MetadataQuery(predicate: .name(.equal, "x.txt"), container: URL(filePath: a.mountPoint))
            try await other.start()
            try await world.eventually("the other finds it") { other.resultCount == 1 }
            other.stop()
            #expect(query.results.count == 30 && query.results.first?.fsName == "9.txt")
            query.enableUpdates()
            try await world.eventually("it has caught up") {
                query.results.first?.fsName == "x.txt" && !query.results.contains { $0.fsName == "9.txt" }
                    && query.results.contains { $0.fsName == "5.txt" && $0.fsSize == 7 }
            }
            var removed = [String]()
            while removed.isEmpty, let event = try await updates.next() { removed += event.removedItems.map(\.fsName) }
            #expect(removed == ["9.txt"])
            await #expect(throws: UbiquitousFileError.self) { try await query.start() }
            // A member of a package is no result of its own, however the folder became a package.
            func member(_ isThere: Bool, _ command: String) async throws {
                try await a.shell(command)
                try await world.eventually("\(command) shows the items in it") {
                    query.results.contains { $0.fsName == "in.txt" } == isThere
                }
            }
            try await member(true, "cd Documents; mkdir -p draft/deep; echo in > draft/deep/in.txt")
            try await member(false, "mv Documents/draft Documents/draft.rtfd")
            try await member(true, "mv Documents/draft.rtfd Documents/draft")
            try await member(false, "setfattr -n user.ubiquity.package -v 1 Documents/draft")
            try await member(true, "setfattr -x user.ubiquity.package Documents/draft")
            try await a.unmount()
            do {
                while try await updates.next() != nil {}
                Issue.record("a query ends with an error after an unmount")
            } catch {
                #expect((error as? UbiquitousFileError)?.code == .ubiquitousFileUbiquityServerNotAvailable)
            }
            #expect(query.isStopped)
        }
    }
}
