import FoundationEssentials
import Testing
@testable import Ubiquity
import UbiquitySystem
import UbiquityTestSupport

/// The same program on a plain folder, without a mount.
@Suite struct LocalModeTests {
    @Test("LX-01: a plain folder takes the place of a container, and a query follows its changes")
    func query() async throws {
        try await TemporaryFolder.with { folder in
            let place = try await UbiquityContainer.localOrUbiquitous("no such container", local: URL(filePath: folder))
            #expect(!place.isUbiquitous && place.url.systemPath == folder)
            let note = place.documentsURL.appending(path: "note.txt")
            try Data("one".utf8).write(to: note)
            try Data("x".utf8).write(to: URL(filePath: folder + "/settings.json"))
            let query = MetadataQuery(
                predicate: try MetadataPredicate("name like '*.txt' and size > 0"),
                searchScopes: [.ubiquitousDocuments], container: place.url)
            var updates = query.updates.makeAsyncIterator()
            try await query.start()
            while try await updates.next()?.kind != .didFinishGathering {}
            #expect(query.results.map(\.relativePath) == ["Documents/note.txt"])
            let item = try #require(query.results.first)
            #expect(item.contentType == "text/plain" && item.downloadingStatus == .current && !item.isUbiquitous)
            #expect(item.contentTypeTree == ["text/plain", "text/*"] && item.lastUsedDate != nil)
            try FileSystem.rename(note.path, to: folder + "/Documents/moved.txt")
            let update = try await updates.next()
            #expect(update?.kind == .didUpdate && update?.changedItems.map(\.fsName) == ["moved.txt"])
            query.stop()
        }
    }

    @Test("scopes separate documents from data in a plain folder too")
    func scopes() async throws {
        try await TemporaryFolder.with { folder in
            try FileSystem.makeDirectories(folder + "/Documents/d")
            try Data("1".utf8).write(to: URL(filePath: folder + "/Documents/d/a"))
            try Data("2".utf8).write(to: URL(filePath: folder + "/b"))
            for (scope, names) in [(MetadataQuery.SearchScope.ubiquitousDocuments, ["a"]), (.ubiquitousData, ["b"])] {
                let query = MetadataQuery(
                    predicate: try MetadataPredicate("kind == 'file'"), searchScopes: [scope],
                    container: URL(filePath: folder))
                var updates = query.updates.makeAsyncIterator()
                try await query.start()
                while try await updates.next()?.kind != .didFinishGathering {}
                #expect(query.results.map(\.fsName) == names)
                query.stop()
            }
        }
    }

    @Test("rules name one item exactly")
    func rules() {
        #expect(SyncExclusion.rule(of: "a.txt") == "/a.txt")
        #expect(SyncExclusion.rule(of: "*[x]?\\ ") == "/\\*\\[x\\]\\?\\\\\\ ")
        #expect(SyncExclusion.rule(of: "!#") == "/!#")
    }
}
