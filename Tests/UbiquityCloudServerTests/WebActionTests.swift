import Testing
import UbiquityCloudClient
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquityWire

/// Every action of the pages. Devices see each in the feed.
@Suite struct WebActionTests {
    private static let root = "/containers/default"

    @Test func folderIsMadeRenamedMovedDeletedAndRestored() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            try await fixture.make([("a.txt", "a")])
            let made = try await browser.post("\(Self.root)/folders", [("name", "Trip")])
            #expect(made.status == 303 && made.location == "\(Self.root)?done=created")
            #expect(try await browser.get(made.location ?? "").text.contains("The folder is there."))
            let trip = try #require(try await fixture.live("Trip"))
            let file = try #require(try await fixture.live("a.txt"))
            #expect(try await browser.post("\(Self.root)/folders", [("name", "Trip")]).status == 409)
            #expect(try await browser.post("\(Self.root)/folders", [("name", "a/b")]).status == 400)

            let moved = try await browser.post(
                "\(Self.root)/move", [("item", "\(file.id)"), ("folder", "\(trip.id)")])
            #expect(moved.status == 303)
            #expect(try await fixture.item(file.id)?.parent == trip.id)
            let inItself = try await browser.post(
                "\(Self.root)/move", [("item", "\(trip.id)"), ("folder", "\(trip.id)")])
            #expect(inItself.status == 400)

            let path = "\(Self.root)/items/\(trip.id)"
            #expect(try await browser.post("\(path)/rename", [("name", "Lake")]).status == 303)
            #expect(try await fixture.item(trip.id)?.name.description == "Lake")

            let deleted = try await browser.post("\(path)/delete", [])
            #expect(deleted.status == 303)
            #expect(try await fixture.items().filter { !$0.isDeleted }.isEmpty)
            let notice = try await browser.get(deleted.location ?? "")
            #expect(notice.text.contains("Moved to the trash.") && notice.text.contains("\(path)/restore"))
            #expect(try await browser.get("\(Self.root)/trash").text.contains("Lake"))
            #expect(try await browser.post("\(path)/restore", []).status == 303)
            #expect(try await fixture.items().filter(\.isDeleted).isEmpty)
            let text = try await fixture.text(of: file.id)
            #expect(text == "a")
        }
    }

    @Test func takenNameGetsANumber() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let ids = try await fixture.make([("to/", ""), ("a.txt", "one")])
            try await fixture.make([("a.txt", "two")], in: ids[0])
            try await browser.post("\(Self.root)/move", [("item", "\(ids[1])"), ("folder", "\(ids[0])")])
            #expect(try await fixture.item(ids[1])?.name.description == "a 2.txt")
        }
    }

    @Test func selectedItemsAreDeletedTogether() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let ids = try await fixture.make([("a", "a"), ("b", "b"), ("c", "c")])
            let fields = [("item", "\(ids[0])"), ("item", "\(ids[1])"), ("action", "delete")]
            #expect(try await browser.post("\(Self.root)/selection", fields).status == 303)
            #expect(try await fixture.items().filter { !$0.isDeleted }.map(\.id) == [ids[2]])
            let none = try await browser.post("\(Self.root)/selection", [("action", "delete")])
            #expect(none.status == 400)
            let move = try await browser.post("\(Self.root)/selection", [("item", "\(ids[2])"), ("action", "move")])
            #expect(move.location == "\(Self.root)/move?item=\(ids[2])")
        }
    }

    @Test func trashIsPurgedItemByItemAndAsAWhole() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let ids = try await fixture.make([("a", "a"), ("b", "b")])
            #expect(try await browser.post("\(Self.root)/items/\(ids[0])/purge", []).status == 409)
            for id in ids { try await browser.post("\(Self.root)/items/\(id)/delete", []) }
            #expect(try await browser.post("\(Self.root)/items/\(ids[0])/purge", []).status == 303)
            let trash = try await device.trash(in: nil, after: nil, limit: 10)
            #expect(trash.items.map(\.item.id) == [ids[1]])
            #expect(try await browser.post("\(Self.root)/trash/empty", []).status == 303)
            #expect(try await device.trash(in: nil, after: nil, limit: 10).items.isEmpty)
        }
    }

    @Test func earlierVersionIsRestoredAsANewOne() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let id = try #require(try await fixture.make([("a.txt", "first")]).first)
            let first = try #require(try await fixture.item(id)?.content?.version)
            try await fixture.save("second", to: id)
            let page = try await browser.get("\(Self.root)/items/\(id)")
            #expect(page.text.contains("/versions/\(first)/restore"))
            let restored = try await browser.post("\(Self.root)/items/\(id)/versions/\(first)/restore", [])
            #expect(restored.status == 303)
            #expect(try await fixture.text(of: id) == "first")
            #expect(try await device.versions(of: id).count == 3)
        }
    }

    @Test func linkIsMadeListedAndRevoked() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let id = try #require(try await WebFixture(device).make([("a.txt", "shared")]).first)
            #expect(try await browser.get("\(Self.root)/items/\(id)").text.contains("/items/\(id)/links"))
            let made = try await browser.post("\(Self.root)/items/\(id)/links", [("days", "1")])
            #expect(made.status == 201)
            let url = try #require(made.value(after: "data-copy=\""))
            let path = try #require(url.firstRange(of: "/s/")).lowerBound
            #expect(try await browser.get("\(url[path...])/content").text == "shared")
            let list = try await browser.get("\(Self.root)/links")
            #expect(list.text.contains("a.txt") && !list.text.contains("/s/"))
            let number = try #require(list.value(after: "name=\"link\" value=\""))
            #expect(try await browser.post("\(Self.root)/links/revoke", [("link", number)]).status == 303)
            #expect(try await browser.get("\(url[path...])/content").status == 410)
        }
    }

    // MARK: Conflicts

    private func decide(_ keep: String) async throws -> (names: [String], texts: [String], conflicts: Int) {
        var result = (names: [String](), texts: [String](), conflicts: -1)
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let id = try await fixture.makeConflict(
                "a.txt", base: "1\n2\n3\n", mine: "1\nmine\n3\n", theirs: "1\ntheirs\n3\n")
            #expect(try await browser.get("\(Self.root)/conflicts").text.contains("a.txt"))
            let page = try await browser.get("\(Self.root)/items/\(id)/conflicts")
            #expect(page.text.contains("<del>") && page.text.contains("<ins>") && page.text.contains("Keep this"))
            let version = try #require(page.value(after: "/items/\(id)/conflicts/"))
            let path = "\(Self.root)/items/\(id)/conflicts/\(version)"
            #expect(try await browser.post(path, [("keep", "x")]).status == 400)
            let decided = try await browser.post(path, [("keep", keep)])
            #expect(decided.status == 303)
            let live = try await fixture.items().filter { !$0.isDeleted }
            for item in live { result.texts.append(try await fixture.text(of: item.id) ?? "") }
            result.names = live.map(\.name.description)
            result.conflicts = live.reduce(0) { $0 + $1.conflictCount }
        }
        return result
    }

    @Test func keepingTheCurrentVersionResolvesTheConflict() async throws {
        let (names, texts, conflicts) = try await decide("current")
        #expect(names == ["a.txt"] && texts == ["1\ntheirs\n3\n"] && conflicts == 0)
    }

    @Test func keepingTheOtherVersionMakesItCurrent() async throws {
        let (names, texts, conflicts) = try await decide("other")
        #expect(names == ["a.txt"] && texts == ["1\nmine\n3\n"] && conflicts == 0)
    }

    @Test func keepingBothMakesTwoFiles() async throws {
        let (names, texts, conflicts) = try await decide("both")
        #expect(names == ["a 2.txt", "a.txt"] && conflicts == 0)
        #expect(Set(texts) == ["1\ntheirs\n3\n", "1\nmine\n3\n"])
    }

    @Test func differencesAreFoundLineByLine() throws {
        let lines = (1...40).map { "line \($0)" }
        var other = lines
        other[19] = "changed"
        other.insert("new", at: 21)
        let difference = TextDifference(lines.joined(separator: "\n"), other.joined(separator: "\n"))
        #expect(difference.isExact && difference.rows.first == .gap(16))
        #expect(difference.rows.contains(.different(old: "line 20", new: "changed")))
        #expect(difference.rows.contains(.different(old: nil, new: "new")))
        #expect(difference.rows.last == .gap(16))
        #expect(TextDifference("a", "a").rows == [.same("a")])
        let huge = TextDifference(
            (0..<3000).map { "a\($0)" }.joined(separator: "\n"), (0..<3000).map { "b\($0)" }.joined(separator: "\n"))
        #expect(!huge.isExact && huge.rows.count == 3000)
    }

    @Test func partsOfAPackageAreNotChangedHere() async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let package = try #require(try await fixture.make([("book.epub/", "")]).first)
            let member = try #require(try await fixture.make([("a", "a")], in: package).first)
            #expect(try await browser.post("\(Self.root)/items/\(member)/rename", [("name", "b")]).status == 415)
            let upload = try await browser.upload([("c", [1])], fields: [("folder", "\(package)")])
            #expect(upload.status == 415)
            // The package as a whole is one document.
            #expect(try await browser.post("\(Self.root)/items/\(package)/rename", [("name", "b.epub")]).status == 303)
        }
    }

    @Test func eventsOfTheContainerAreStreamed() async throws {
        try await PlainBrowser.runSignedIn { browser, _, _ in
            let page = try await browser.get(Self.root)
            #expect(page.text.contains("data-events=\"/containers/default/events\""))
        }
    }
}
