import FoundationEssentials
import Testing
import UbiquityControl
@testable import Ubiquity

/// A query's results as a program sees them.
@Suite struct QueryResultsTests {
    private func item(_ path: String, id: String? = nil, size: Int64 = 0) -> MetadataItem {
        var report = ItemReport(path: path, kind: "file", size: size, container: "c")
        report.itemID = id ?? path
        return MetadataItem(
            MetadataRecord(item: report, createdAt: 0, modifiedAt: Double(size)), mountPoint: "/m", isExternal: false)
    }

    private func paths(_ items: [MetadataItem]) -> [String] { items.map(\.relativePath) }

    private let tree = MetadataOrder(descriptors: [])

    @Test func resultsFollowTheTreesOrder() {
        let paths = ["a", "a/b", "a/b/c", "a/c", "a b", "a.txt", "b", "ä"]
        for (index, path) in paths.enumerated() {
            for (other, second) in paths.enumerated() {
                #expect(MetadataOrder.isListed(path, before: second) == (index < other), "\(path) \(second)")
            }
        }
    }

    @Test("DQ-01: added, changed and removed, in a stable order")
    func changes() {
        var results = QueryResults(order: tree)
        #expect(paths(results.take(present: [item("b"), item("a"), item("a/x")], gone: []).addedItems) == ["a", "a/x", "b"])
        #expect(paths(results.items()) == ["a", "a/x", "b"])
        // The same result again is no change.
        #expect(results.take(present: [item("a")], gone: [item("z").id]).isEmpty)
        let update = results.take(present: [item("a", size: 5), item("aa")], gone: [item("b").id])
        #expect(paths(update.addedItems) == ["aa"] && paths(update.changedItems) == ["a"])
        #expect(paths(update.removedItems) == ["b"])
        #expect(paths(results.items()) == ["a", "a/x", "aa"])
        // A moved item keeps its identity and gets its new position.
        let moved = results.take(present: [item("z", id: "a", size: 5)], gone: [])
        #expect(paths(moved.changedItems) == ["z"] && paths(results.items()) == ["a/x", "aa", "z"])
    }

    @Test func sortDescriptorsComeFirst() {
        let order = MetadataOrder(descriptors: [
            MetadataQuery.SortDescriptor(.fsSize, order: .reverse), MetadataQuery.SortDescriptor(.fsName),
        ])
        var results = QueryResults(order: order)
        _ = results.take(present: [item("x/a", size: 1), item("b", size: 2), item("c", size: 1)], gone: [])
        #expect(paths(results.items()) == ["b", "x/a", "c"])
    }

    @Test("DQ-01: the order is right for few and many changes at a time", arguments: [3, 200])
    func orderHolds(_ most: Int) {
        var state: UInt64 = 88
        func random(_ limit: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state >> 33) % limit
        }
        var results = QueryResults(order: MetadataOrder(descriptors: [MetadataQuery.SortDescriptor(.fsSize)]))
        var truth = [String: MetadataItem]()
        for round in 0..<200 {
            let present = (0..<random(most)).map { _ in
                item("p\(random(40))", id: "\(random(300))", size: Int64(random(5)))
            }
            let gone = (0..<random(most)).map { _ in item("", id: "\(random(300))").id }
            _ = results.take(present: present, gone: gone)
            for id in gone { truth[id.item] = nil }
            for item in present { truth[item.id.item] = item }
            #expect(results.count == truth.count)
            guard round % 3 == 0 else { continue }
            let items = results.items()
            #expect(Set(items) == Set(truth.values))
            for (first, second) in zip(items, items.dropFirst()) {
                #expect(!results.order.precedes(second, first))
            }
        }
    }

    @Test("DQ-01: waiting updates are merged, each item once")
    func merging() {
        var merged = MergedUpdate()
        merged.add(MetadataUpdate(addedItems: [item("new"), item("brief")], removedItems: [item("back"), item("gone")]))
        merged.add(MetadataUpdate(changedItems: [item("new", size: 2), item("old", size: 1)], removedItems: [item("brief")]))
        merged.add(MetadataUpdate(addedItems: [item("back", size: 3)], removedItems: [item("old", size: 1)]))
        let update = merged.update(in: tree)
        #expect(update.addedItems == [item("new", size: 2)])
        #expect(update.changedItems == [item("back", size: 3)])
        #expect(paths(update.removedItems) == ["gone", "old"])
    }

    private func news(_ kind: QueryNews.Kind, added: [MetadataItem] = [], removed: [MetadataItem] = []) -> QueryNews {
        var news = QueryNews(kind)
        news.added = added.map(\.record)
        news.removed = removed.map(\.id.item)
        return news
    }

    @Test("DQ-01: gathering, then updates; disabled updates freeze the results and lose nothing")
    func disabledUpdates() throws {
        let source = QuerySource(stateFolder: "/s", mountPoint: "/m", scopes: [], isExternal: false)
        var state = QueryState(order: tree)
        let (inbox, _) = UpdateInbox.make(order: tree)
        _ = state.add(inbox)
        state.begin(sources: [source])
        state.take(news(.items, added: [item("b")]), from: source)
        state.take(news(.items, added: [item("a")]), from: source)
        #expect(state.isGathering)
        state.take(news(.gathered), from: source)
        #expect(!state.isGathering && paths(state.shown()) == ["a", "b"])
        #expect(inbox.take()?.kind == .didStartGathering)
        #expect(paths(try #require(inbox.take()).addedItems) == ["a", "b"])
        #expect(inbox.take()?.kind == .didFinishGathering)
        #expect(inbox.take() == nil)
        state.disable()
        state.disable()
        state.take(news(.update, added: [item("c"), item("d")]), from: source)
        state.take(news(.update, removed: [item("a"), item("d")]), from: source)
        state.enable()
        #expect(paths(state.shown()) == ["a", "b"] && inbox.take() == nil)
        state.enable()
        #expect(paths(state.shown()) == ["b", "c"])
        let event = try #require(inbox.take())
        #expect(event.kind == .didUpdate && paths(event.addedItems) == ["c"] && paths(event.removedItems) == ["a"])
        #expect(event.changedItems.isEmpty)
    }

    @Test("DQ-01: an update in several parts is one update")
    func parts() throws {
        let source = QuerySource(stateFolder: "/s", mountPoint: "/m", scopes: [], isExternal: false)
        var state = QueryState(order: tree)
        let (inbox, _) = UpdateInbox.make(order: tree)
        state.begin(sources: [source])
        state.take(news(.gathered), from: source)
        _ = state.add(inbox)
        var first = news(.update, added: [item("a")])
        first.isPart = true
        state.take(first, from: source)
        #expect(inbox.take() == nil && state.shown().isEmpty)
        state.take(news(.update, added: [item("b")]), from: source)
        #expect(paths(try #require(inbox.take()).addedItems) == ["a", "b"])
        state.end(.success(()))
        #expect(inbox.outcome != nil)
    }

    @Test("DQ-01: an item removed in a later part is gone; one that returns is present")
    func partsInOrder() throws {
        let source = QuerySource(stateFolder: "/s", mountPoint: "/m", scopes: [], isExternal: false)
        var state = QueryState(order: tree)
        state.begin(sources: [source])
        state.take(news(.items, added: [item("a"), item("b")]), from: source)
        state.take(news(.gathered), from: source)
        let (inbox, _) = UpdateInbox.make(order: tree)
        _ = state.add(inbox)
        var first = news(.update, added: [item("a", size: 1), item("new")], removed: [item("b")])
        first.isPart = true
        state.take(first, from: source)
        var second = news(.update, added: [item("b", size: 2)], removed: [item("a"), item("new")])
        second.isPart = true
        state.take(second, from: source)
        state.take(news(.update), from: source)
        #expect(state.shown() == [item("b", size: 2)])
        let event = try #require(inbox.take())
        #expect(paths(event.removedItems) == ["a"] && paths(event.changedItems) == ["b"] && event.addedItems.isEmpty)
    }

    @Test("DQ-01: unmounting another container removes its documents; unmounting the own one ends the query")
    func sourcesEnd() throws {
        struct Gone: Error {}
        let own = QuerySource(stateFolder: "/s", mountPoint: "/m", scopes: [], isExternal: false)
        let other = QuerySource(stateFolder: "/t", mountPoint: "/n", scopes: [], isExternal: true)
        var state = QueryState(order: tree)
        state.begin(sources: [own, other])
        state.take(news(.items, added: [item("a")]), from: own)
        state.take(news(.gathered), from: own)
        state.take(news(.items, added: [item("b"), item("c")]), from: other)
        let (inbox, _) = UpdateInbox.make(order: tree)
        _ = state.add(inbox)
        #expect(state.isGathering && state.shown().count == 3)
        state.end(other, .failure(Gone()))
        #expect(state.outcome == nil && !state.isGathering && paths(state.shown()) == ["a"])
        #expect(paths(try #require(inbox.take()).removedItems) == ["b", "c"])
        #expect(inbox.take()?.kind == .didFinishGathering)
        let task = Task {}
        #expect(state.keep(task) && state.takeEndedTasks().isEmpty)
        state.end(own, .failure(Gone()))
        #expect(throws: Gone.self) { try state.outcome?.get() }
        // Every running read is cancelled, and a read that begins later is discarded.
        #expect(state.takeEndedTasks() == [task] && !state.keep(task) && paths(state.shown()) == ["a"])
    }

    @Test func attributesHaveKeys() {
        for attribute in MetadataAttribute.allCases { #expect(attribute.key.rawValue == attribute.rawValue) }
    }

    @Test("DQ-06: predicates from text and from parts")
    func predicates() throws {
        let parts = MetadataPredicate.name(.like, "*.txt", caseInsensitive: true)
            && !(.attribute(.fsSize, .greater, 10) || .attribute(.hasUnresolvedConflicts))
        #expect(try MetadataPredicate(parts.description) == parts)
        #expect(throws: MetadataPredicate.Malformed.self) { try MetadataPredicate("name ==") }
        #expect(MetadataPredicate.attribute(.fsSize) == .none)
    }

    @Test("DQ-06: any date, any number and a long chain are accepted")
    func extremes() throws {
        let moments = [Date.distantPast, .distantFuture, Date(timeIntervalSince1970: 1e300), Date(timeIntervalSince1970: -0.5)]
        var chain = moments.map { MetadataPredicate.attribute(.fsContentChangeDate, .greater, $0) }
        chain += [-1, 0.5, 1e16, 1e300].map { MetadataPredicate.attribute(.fsSize, .less, $0) }
        for predicate in chain { #expect(try MetadataPredicate(predicate.description) == predicate, "\(predicate)") }
        #expect(MetadataPredicate.attribute(.fsCreationDate, .less, Date(timeIntervalSince1970: .nan)) == .none)
        chain += (0..<200).map { MetadataPredicate.name(.equal, "\($0)") }
        let joined = [
            chain.reduce(.all) { $0 && $1 }, chain.reduce(.none) { $0 || $1 }, chain.reversed().reduce(.all) { $1 && $0 },
        ]
        for predicate in joined { #expect(try MetadataPredicate(predicate.description) == predicate) }
    }
}
