import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The route of queries.
///
/// Results are read and sent a page at a time, each after the previous one was written. So neither a long list nor a
/// slow reader fills memory.
struct QueryRoutes: Sendable {
    let commands: MountCommands
    let responder: Responder

    /// Threads that read the index for queries: their own, so that a long list does not delay other work.
    private static let pool = BlockingPool(name: "queries", threads: 2)
    /// Pages without a result after which a heartbeat is sent, to notice a reader that has gone.
    private static let silentPages = 20

    func add(to router: Router<BasicRequestContext>) {
        router.post(RouterPath(ControlRoute.queries)) { request, _ in try await query(request) }
    }

    private func query(_ request: Request) async throws -> Response {
        do {
            let wanted = try await responder.message(QueryRequest.self, of: request)
            let query = try ItemQuery(wanted, now: commands.parts.timekeeper.now().seconds)
            try await checkFolder(wanted.folder ?? "")
            let run = QueryRun(query, commands.parts.look)
            // Before the first look: changes from here on are reported.
            let live = query.isLive ? commands.queries.watch() : nil
            if query.isLive, live == nil {
                throw UbiquityError(.tooManyRequests, "too many live queries: at most \(QueryHub.maximumWatchers)")
            }
            return responder.events(
                ResponseBody { writer in
                    defer { live?.end() }
                    try await Self.answer(run, &writer)
                    if let live { try await Self.update(run, live.watcher, query.interval, &writer) }
                    try await writer.finish(nil)
                })
        } catch { return try await responder.refuse(error) }
    }

    /// Throws `.notFound` while the answer can still report it.
    private func checkFolder(_ path: String) async throws {
        guard !path.isEmpty else { return }
        do {
            try await Self.pool.run { [tree = commands.parts.tree] in _ = try tree.row(at: path) }
        } catch let error as UbiquityError where error.code == .notFound {
            throw UbiquityError(.notFound, error.message, at: path)
        }
    }

    private static func answer(_ run: QueryRun, _ writer: inout any ResponseBodyWriter) async throws {
        try await write(QueryNews(.gathering), &writer)
        try await pool.run { try run.beginGathering() }
        var silent = 0
        while let page = try await pool.run({ try run.gather() }) {
            for news in news(.items, of: page) {
                try await write(news, &writer)
                silent = 0
            }
            silent += 1
            if silent % silentPages == 0 { try await writer.write(ByteBuffer(string: ": still reading\n\n")) }
        }
        var end = QueryNews(.gathered)
        end.count = run.count
        try await write(end, &writer)
    }

    /// Sends updates until the mount ends or the reader has gone.
    private static func update(
        _ run: QueryRun, _ watcher: QueryWatcher, _ interval: Duration, _ writer: inout any ResponseBodyWriter
    ) async throws {
        for await signal in watcher.signals {
            guard case .changed = signal else {
                try await writer.write(ByteBuffer(string: ": still here\n\n"))
                continue
            }
            try await Sleepers.shared.sleep(for: interval)
            let noted = watcher.take()
            guard !noted.isEmpty else { continue }
            if let changes = try await pool.run({ try run.update(noted) }) {
                try await send(changes, isPart: false, &writer)
            } else {
                try await pool.run { try run.beginGathering() }
                while let page = try await pool.run({ try run.gather() }) {
                    try await send(page, isPart: true, &writer)
                }
                try await write(QueryNews(.update), &writer)
            }
        }
    }

    private static func send(
        _ changes: QueryRun.Changes, isPart: Bool, _ writer: inout any ResponseBodyWriter
    ) async throws {
        guard !changes.isEmpty else { return }
        var news = news(.update, of: changes)
        for index in news.indices {
            if isPart || index < news.count - 1 { news[index].isPart = true }
            try await write(news[index], &writer)
        }
    }

    /// The changes in as many messages as needed, removals first.
    private static func news(_ kind: QueryNews.Kind, of changes: QueryRun.Changes) -> [QueryNews] {
        var news = [QueryNews]()
        for part in changes.removed.parts {
            var one = QueryNews(kind)
            one.removed = Array(part)
            news.append(one)
        }
        for part in changes.changed.parts {
            var one = QueryNews(kind)
            one.changed = Array(part)
            news.append(one)
        }
        for part in changes.added.parts {
            var one = QueryNews(kind)
            one.added = Array(part)
            news.append(one)
        }
        return news
    }

    private static func write(_ news: QueryNews, _ writer: inout any ResponseBodyWriter) async throws {
        try await writer.write(Responder.event(news))
    }
}

extension Array {
    /// Slices of the size of one message.
    fileprivate var parts: [ArraySlice<Element>] {
        stride(from: 0, to: count, by: QueryNews.maximumItems).map {
            self[$0..<Swift.min($0 + QueryNews.maximumItems, count)]
        }
    }
}
