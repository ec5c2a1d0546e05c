import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Finds items of a container by what is known of them, on this device or not, and goes on telling what changes.
///
/// `start` begins with the gathering phase: the index is read, and `results` fill. From then on changes are told in
/// updates: items that have come to fit, that have changed, that fit no more. Nothing is downloaded by it.
///
///     let query = try MetadataQuery(predicate: MetadataPredicate("name like '*.txt'"))
///     let updates = query.updates
///     try await query.start()
///     for try await event in updates { show(query.results) }
///
/// While `disableUpdates` holds, results stay as they are, so that a list can be walked through; what has changed
/// meanwhile is told at once by `enableUpdates`. A query ends with `stop`, or when nobody has it any more.
public final class MetadataQuery: Sendable {
    public enum SearchScope: String, CaseIterable, Hashable, Sendable {
        /// What is in the container's `Documents`, here or not.
        case ubiquitousDocuments
        /// The rest of the container, here or not.
        case ubiquitousData
        /// The documents of the other containers that are mounted on this machine.
        case accessibleUbiquitousExternalDocuments
        /// What is wholly on this device.
        case localDocuments
    }

    public struct SortDescriptor: Hashable, Sendable {
        public enum Order: Hashable, Sendable {
            case forward, reverse
        }

        public let attribute: MetadataAttribute
        public let order: Order

        public init(_ attribute: MetadataAttribute, order: Order = .forward) {
            self.attribute = attribute
            self.order = order
        }
    }

    /// What happened to a query.
    public struct Event: Hashable, Sendable {
        public enum Kind: Hashable, Sendable {
            case didStartGathering
            /// Results have been found: `addedItems`; and some may have changed, or gone, before all were.
            case gatheringProgress
            case didFinishGathering
            case didUpdate
        }

        public let kind: Kind
        public let update: MetadataUpdate
        public var addedItems: [MetadataItem] { update.addedItems }
        public var changedItems: [MetadataItem] { update.changedItems }
        public var removedItems: [MetadataItem] { update.removedItems }
    }

    public let predicate: MetadataPredicate
    public let searchScopes: [SearchScope]
    public let sortDescriptors: [SortDescriptor]
    /// Changes that come within that time are told together. (Between 0.02 and 60 s.)
    public let notificationBatchingInterval: Duration
    private let container: URL?
    let state: Lock<QueryState>

    /// - Parameters:
    ///   - container: A place in the container to search; nil if only one is mounted.
    public init(
        predicate: MetadataPredicate = .all,
        searchScopes: [SearchScope] = [.ubiquitousDocuments, .ubiquitousData],
        sortDescriptors: [SortDescriptor] = [], container: URL? = nil,
        notificationBatchingInterval: Duration = .milliseconds(250)
    ) {
        self.predicate = predicate
        self.searchScopes = searchScopes
        self.sortDescriptors = sortDescriptors
        self.container = container
        self.notificationBatchingInterval = notificationBatchingInterval
        state = Lock(QueryState(order: MetadataOrder(descriptors: sortDescriptors)))
    }

    deinit { stop() }

    // MARK: Running

    /// Begins to gather, and returns at once. Throws `UbiquitousFileError` if there is no mount to ask, or if the
    /// query was started before.
    public func start() async throws {
        do {
            let sources = try QuerySource.all(of: searchScopes, container: container)
            let isFirst = state.withLock { state in
                guard !state.isStarted else { return false }
                state.begin(sources: sources)
                return true
            }
            guard isFirst else { throw UbiquityError(.invalid, "a query is started once", remedy: "make a new one") }
            do {
                for source in sources { try begin(source) }
            } catch {
                stop()
                throw error
            }
        } catch {
            throw UbiquitousFileError.from(error, isWriting: false)
        }
    }

    /// Throws if the container to search cannot be asked; without another one the query goes on.
    private func begin(_ source: QuerySource) throws {
        do {
            run(source, try DaemonConnection(stateFolder: source.stateFolder))
        } catch where source.isExternal {
            end(source, .failure(UbiquitousFileError.from(error, isWriting: false)))
        }
    }

    private func run(_ source: QuerySource, _ connection: DaemonConnection) {
        let seconds = notificationBatchingInterval / .seconds(1)
        let wanted = QueryRequest(
            scopes: source.scopes, predicate: predicate.description, isLive: true, interval: seconds)
        let task = Task { [weak self] in
            let outcome: Result<Void, any Error>
            do {
                try await connection.query(wanted) { [weak self] news in
                    guard let self else { throw CancellationError() }
                    self.state.withLock { $0.take(news, from: source) }
                }
                throw MountUnreachable(source.mountPoint, "its daemon has ended")
            } catch is CancellationError {
                outcome = .success(())
            } catch {
                outcome = .failure(UbiquitousFileError.from(error, isWriting: false))
            }
            self?.end(source, outcome)
            await connection.close()
        }
        // It may have been stopped, or have failed, meanwhile.
        if !state.withLock({ $0.keep(task) }) { task.cancel() }
    }

    private func end(_ source: QuerySource, _ outcome: Result<Void, any Error>) {
        let tasks = state.withLock { state in
            state.end(source, outcome)
            return state.takeEndedTasks()
        }
        for task in tasks { task.cancel() }
    }

    /// Ends it; results stay as they are.
    public func stop() {
        let tasks = state.withLock { state in
            state.end(.success(()))
            return state.takeEndedTasks()
        }
        for task in tasks { task.cancel() }
    }

    public var isStarted: Bool { state.withLock { $0.isStarted } }
    public var isGathering: Bool { state.withLock { $0.isGathering } }
    public var isStopped: Bool { state.withLock { $0.outcome != nil } }

    // MARK: Results

    /// In the order of `sortDescriptors`, and where that says nothing, as a tree is listed.
    public var results: [MetadataItem] { state.withLock { $0.shown() } }
    public var resultCount: Int { results.count }

    /// Results stay as they are until as many calls of `enableUpdates`.
    public func disableUpdates() { state.withLock { $0.disable() } }
    public func enableUpdates() { state.withLock { $0.enable() } }

    /// What happens from here on. Each sequence tells all of it; who is slow gets what he has missed in one. It ends
    /// when the query is stopped, and throws `UbiquitousFileError` if the mount of its container has ended.
    /// That another container is unmounted takes its documents away.
    public var updates: Updates {
        let (inbox, signals) = UpdateInbox.make(order: MetadataOrder(descriptors: sortDescriptors))
        let number = state.withLock { $0.add(inbox) }
        inbox.whenLeft { [weak self] in self?.state.withLock { $0.remove(number) } }
        return Updates(inbox: inbox, signals: signals)
    }

    public struct Updates: AsyncSequence, Sendable {
        public typealias Element = Event
        public typealias Failure = any Error

        let inbox: UpdateInbox
        let signals: AsyncStream<Void>

        public func makeAsyncIterator() -> Iterator { Iterator(inbox: inbox, signals: signals.makeAsyncIterator()) }

        public struct Iterator: AsyncIteratorProtocol {
            let inbox: UpdateInbox
            var signals: AsyncStream<Void>.Iterator

            public mutating func next() async throws -> Event? {
                while true {
                    if let event = inbox.take() { return event }
                    if let outcome = inbox.outcome {
                        try outcome.get()
                        return nil
                    }
                    // No more signals: it has ended, or this task was cancelled.
                    if await signals.next() == nil, inbox.outcome == nil { return nil }
                }
            }
        }
    }
}
