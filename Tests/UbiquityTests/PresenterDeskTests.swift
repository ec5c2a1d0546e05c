import FoundationEssentials
import Testing
import UbiquityControl
import UbiquitySystem
@testable import Ubiquity

/// Delivery of messages to a presenter.
@Suite struct PresenterDeskTests {
    private func changed(_ path: String, _ fields: [String]? = ["content"], of presenter: UInt64 = 1) -> ClientNews {
        var news = ClientNews(.changed)
        news.path = path
        news.fields = fields
        news.presenters = [presenter]
        return news
    }

    private func news(_ kind: ClientNews.Kind, question: UInt64? = nil, path: String? = nil) -> ClientNews {
        var news = ClientNews(kind)
        news.question = question
        news.path = path
        news.presenters = kind == .moved ? [1] : nil
        return news
    }

    private func all(_ queue: PresenterQueue) -> [ClientNews] {
        var queue = queue
        return Array(sequence(state: ()) { _ in queue.next() })
    }

    @Test("pending changes are merged, and requests overtake them; the other messages keep their order")
    func order() {
        var queue = PresenterQueue()
        for message in [
            changed("a", ["mode"]), changed("b"), changed("a", ["times"]), changed("a", ["mode"]), news(.moved, path: "c"),
            changed("c", ["mode"]), changed("c", nil), news(.ask, question: 7), news(.reacquire, question: 7),
        ] { queue.add(message) }
        let messages = all(queue)
        #expect(messages.map(\.kind) == [.changed, .changed, .moved, .ask, .changed, .reacquire])
        #expect(messages.map(\.path) == ["a", "b", "c", nil, "c", nil])
        #expect(messages[0].fields == ["mode", "times"] && messages[4].fields == nil)
    }

    @Test("a slow presenter gets an overflow message; requests and its own moves stay")
    func limit() {
        var queue = PresenterQueue()
        queue.add(news(.ask, question: 1))
        queue.add(news(.moved, path: "old"))
        queue.add(news(.moved, path: "new"))
        for number in 0..<(3 * PresenterQueue.maximumWaiting) { queue.add(changed("\(number)")) }
        #expect(queue.count <= PresenterQueue.maximumWaiting)
        queue.add(news(.ask, question: 2))
        let messages = all(queue)
        #expect(messages.prefix(3).map(\.kind) == [.ask, .moved, .overflow])
        #expect(messages[1].path == "new")
        #expect(messages.filter { $0.kind == .overflow }.count == 1 && messages.contains { $0.question == 2 })
    }

    @Test("changes of permissions and attributes alone are not content changes")
    func fields() {
        #expect(!changed("a", ["mode", "attributes"]).mayBeOfContent)
        for fields in [["content"], ["mode", "times"], [], nil] { #expect(changed("a", fields).mayBeOfContent) }
        #expect(news(.moved, path: "a").mayBeOfContent)
    }

    @Test("PN-14: after an overflow, a presenter checks its item and conflicts")
    func overflow() async throws {
        let presenter = Told(), (answers, source) = AsyncStream.makeStream(of: UInt64.self)
        let desk = PresenterDesk(
            presenter, number: 1, answer: { question, _ in source.yield(question) },
            place: { URL(filePath: "/none/\($0)") })
        desk.take(ClientNews(.overflow))
        desk.take(news(.ask, question: 3))
        var iterator = answers.makeAsyncIterator()
        #expect(await iterator.next() == 3)
        #expect(presenter.told.withLock { $0 } == ["changed", "resolved"])
        desk.close()
    }

    @Test("a connection that ends late removes only itself")
    func connections() {
        var table = ConnectionTable<String>()
        let first = table.newNumber(), second = table.newNumber()
        table.note("first", first, of: "/s")
        #expect(table.isCurrent(first, of: "/s") && !table.isCurrent(first, of: "/t"))
        #expect(table.remove(first, of: "/s") == "first" && table["/s"] == nil)
        table.note("second", second, of: "/s")
        #expect(table.remove(first, of: "/s") == nil)
        #expect(table.isCurrent(second, of: "/s") && table["/s"]?.value == "second")
    }
}

private final class Told: FilePresenter {
    let presentedItemURL = URL(filePath: "/none/f")
    let told = Lock<[String]>([])

    func presentedItemDidChange() async { told.withLock { $0.append("changed") } }
    func presentedItemDidResolveConflictVersion(_ identifier: String?) async { told.withLock { $0.append("resolved") } }
}
