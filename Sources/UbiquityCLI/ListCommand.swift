import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

struct ListCommand: AsyncParsableCommand {
    enum Scope: String, CaseIterable, ExpressibleByArgument {
        case documents, data, local

        var asScope: QueryScope {
            switch self {
            case .documents: .documents
            case .data: .data
            case .local: .local
            }
        }
    }

    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "List the items that match a query, whether their content is here or not.",
        discussion: """
            A query compares the properties of items, for example: name like "*.txt" and (size > 10M or modified > \
            now-7d) and not conflicts. Keys: \(QueryKey.allCases.map(\.rawValue).joined(separator: ", ")). Operators \
            for text: == != like contains beginswith endswith in; with [c] they ignore case. For numbers and dates: \
            == != < <= > >= in. For paths: within FOLDER. A key with 0 or 1 needs no operator. A package is one \
            item. The command downloads nothing.
            """)

    @Option(help: .init("The query. Default: all items.", valueName: "query"))
    var query: String = ""

    @Option(
        help: .init("documents, data (synced, not in Documents) or local (content on this device); may be repeated."))
    var scope: [Scope] = []

    @Flag(help: "Continue with changes: + new, ~ changed, - gone or no longer a match.")
    var watch = false

    @Argument(help: "A folder, a file, or the mount point; needed if several containers are mounted.")
    var path: String?

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func validate() throws {
        do {
            _ = try QueryPredicate(parsing: query, now: Output.now())
        } catch {
            throw ValidationError(error.description)
        }
    }

    func run() async throws {
        let location = try state.mount(of: path)
        let request = QueryRequest(
            scopes: scope.map(\.asScope), predicate: query,
            folder: String(decoding: location.relativePath, as: UTF8.self), isLive: watch)
        let shown = ListedItems(path: path, location: location, asJSON: output.asJSON, isLive: watch)
        try await Daemon.connected(to: String(decoding: location.stateFolder, as: UTF8.self)) { daemon in
            let isWhole = watch ? try await list(daemon, request, shown) : try await Progress.showing(
                "reading the index …"
            ) { try await list(daemon, request, shown, $0) }
            guard isWhole else { throw MountUnreachable(daemon.stateFolder, "its daemon ended during the listing") }
        }
        if watch { Output.message("the mount has ended") }
    }

    /// - Returns: false if the daemon ended before it had sent all results.
    private func list(
        _ daemon: DaemonConnection, _ request: QueryRequest, _ shown: ListedItems, _ progress: Progress? = nil
    ) async throws -> Bool {
        var isWhole = false
        try await daemon.query(request) { news in
            progress?.clear()
            try shown.show(news)
            if news.kind == .gathered { isWhole = true }
        }
        return isWhole
    }
}

/// Prints the lines of a listing.
struct ListedItems {
    /// One line of a live listing.
    private struct Line: Encodable {
        /// "found", "gathered" (no item), "added", "changed" or "removed".
        var change: String
        var item: MetadataRecord?
        /// Its path before it moved.
        var oldPath: String?
        /// For a removed item.
        var itemID: String?
    }

    private let items: [LocatedPaths.Item]
    private let asJSON: Bool
    private let isLive: Bool
    /// The last path of each item, to name a removed one.
    private let paths = Lock([String: String]())

    init(path: String?, location: PathResolver.Location, asJSON: Bool, isLive: Bool) {
        items = path.map { [LocatedPaths.Item(typed: $0, location: location)] } ?? []
        self.asJSON = asJSON
        self.isLive = isLive
    }

    func show(_ news: QueryNews) throws {
        let isFirst = news.kind == .items
        // An item that moved during the listing stays where it was found first: a printed line stays.
        if isLive {
            for id in news.removed ?? [] { try showRemoved(id) }
            for record in news.changed ?? [] { try show(record, "changed", mark: "~ ") }
        }
        for record in news.added ?? [] {
            try show(record, isFirst ? "found" : "added", mark: !isLive ? "" : isFirst ? "  " : "+ ")
        }
        if isLive, asJSON, news.kind == .gathered { try Output.json(Line(change: "gathered")) }
    }

    private func show(_ record: MetadataRecord, _ change: String, mark: String) throws {
        var record = record
        record.item.path = LocatedPaths.shown(record.item.path, among: items)
        let old = isLive ? paths.withLock { $0.updateValue(record.item.path, forKey: record.id) } : nil
        let oldPath = old.flatMap { $0.isSamePath(as: record.item.path) ? nil : $0 }
        guard asJSON else {
            let was = oldPath.map { "  (was \(Output.shown($0)))" } ?? ""
            return Output.line("\(mark)\(TerminalStyle.time(record.modifiedAt))  \(StatusText.of(record.item))\(was)")
        }
        guard isLive else { return try Output.json(record) }
        try Output.json(Line(change: change, item: record, oldPath: oldPath))
    }

    private func showRemoved(_ id: String) throws {
        let path = paths.withLock { $0.removeValue(forKey: id) } ?? id
        guard !asJSON else { return try Output.json(Line(change: "removed", itemID: id)) }
        Output.line("- \(Output.shown(path))")
    }
}
