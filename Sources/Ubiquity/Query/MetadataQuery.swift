import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Finds a container's items by their metadata, downloaded or not, and reports changes from then on.
///
/// `start` begins the gathering phase: the daemon reads the index and `results` fill. After that, updates report items
/// that match now, have changed, or no longer match. A query downloads nothing.
///
///     let query = try MetadataQuery(predicate: MetadataPredicate("name like '*.txt'"))
///     let updates = query.updates
///     try await query.start()
///     for try await event in updates { show(query.results) }
///
/// While `disableUpdates` holds, the results stay the same, so a program can iterate over them. `enableUpdates` reports
/// the changes made meanwhile at once. A query ends with `stop`, or when its last reference is released.
///
/// - Source: `NSMetadataQuery`.
public final class MetadataQuery: Sendable {
    /// The place that a query searches.
    public enum SearchScope: String, CaseIterable, Hashable, Sendable {
        /// Items in the container's `Documents`, downloaded or not.
        case ubiquitousDocuments
        /// All other items of the container, downloaded or not.
        case ubiquitousData
        /// The documents of the other containers mounted on this machine.
        case accessibleUbiquitousExternalDocuments
        /// Items whose whole content is on this device.
        case localDocuments
    }

    /// A part of the results' order.
    public struct SortDescriptor: Hashable, Sendable {
        /// The direction of an order.
        public enum Order: Hashable, Sendable {
            /// Smallest first, or largest first.
            case forward, reverse
        }

        /// The attribute that decides.
        public let attribute: MetadataAttribute
        /// The direction.
        public let order: Order

        /// Makes a part of an order.
        ///
        /// - Parameter attribute: The attribute that decides.
        /// - Parameter order: The direction.
        public init(_ attribute: MetadataAttribute, order: Order = .forward) {
            self.attribute = attribute
            self.order = order
        }
    }

    /// An event of a query.
    public struct Event: Hashable, Sendable {
        /// The phase that the event belongs to.
        public enum Kind: Hashable, Sendable {
            /// The query has begun.
            case didStartGathering
            /// More results were found (`addedItems`). Some may have changed or gone before gathering ended.
            case gatheringProgress
            /// The results are complete.
            case didFinishGathering
            /// Items match now, have changed, or no longer match.
            case didUpdate
        }

        /// The phase that the event belongs to.
        public let kind: Kind
        /// The changes in the results.
        public let update: MetadataUpdate
        /// The items that match since this event.
        public var addedItems: [MetadataItem] { update.addedItems }
        /// The items that have changed.
        public var changedItems: [MetadataItem] { update.changedItems }
        /// The items that no longer match, in their last state.
        public var removedItems: [MetadataItem] { update.removedItems }
    }

    /// The condition of the results.
    public let predicate: MetadataPredicate
    /// The places that the query searches.
    public let searchScopes: [SearchScope]
    /// The order of the results.
    public let sortDescriptors: [SortDescriptor]
    /// Changes within this time are reported together. Between 0.02 and 60 s.
    public let notificationBatchingInterval: Duration
    private let container: URL?
    let state: Lock<QueryState>

    /// Makes a query.
    ///
    /// - Parameters:
    ///   - container: A URL in the container to search, or a plain folder outside of all containers; nil if only one
    ///     container is mounted.
    ///   - predicate: The condition of the results.
    ///   - searchScopes: The places to search.
    ///   - sortDescriptors: The order of the results.
    ///   - notificationBatchingInterval: Changes within this time are reported together.
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

    /// Starts gathering and returns at once.
    ///
    /// - Throws: `UbiquitousFileError` if no mount can be asked, or the query was started before.
    public func start() async throws {
        do {
            let sources = try QuerySource.all(of: searchScopes, container: container)
            let isFirst = state.withLock { state in
                guard !state.isStarted else { return false }
                state.begin(sources: sources)
                return true
            }
            guard isFirst else {
                throw UbiquityError(.invalid, "the query was started before", remedy: "make a new query")
            }
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

    /// Throws if the searched container cannot be asked. If another container cannot be asked, the query continues
    /// without it.
    private func begin(_ source: QuerySource) throws {
        guard !source.isLocal else { return search(source) }
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
                throw MountUnreachable(source.mountPoint, "its daemon has ended, or the account has changed")
            } catch is CancellationError {
                outcome = .success(())
            } catch {
                outcome = .failure(UbiquitousFileError.from(error, isWriting: false))
            }
            self?.end(source, outcome)
            await connection.close()
        }
        // The query may have stopped or failed meanwhile.
        if !state.withLock({ $0.keep(task) }) { task.cancel() }
    }

    /// Searches a plain folder.
    private func search(_ source: QuerySource) {
        let search = LocalFolderSearch(
            folder: source.mountPoint, scopes: source.scopes, predicate: predicate.predicate,
            interval: notificationBatchingInterval)
        let task = Task { [weak self] in
            let outcome: Result<Void, any Error>
            do {
                try await search.run { [weak self] news in
                    guard let self else { throw CancellationError() }
                    self.state.withLock { $0.take(news, from: source) }
                }
                outcome = .success(())
            } catch is CancellationError {
                outcome = .success(())
            } catch {
                outcome = .failure(UbiquitousFileError.from(error, isWriting: false))
            }
            self?.end(source, outcome)
        }
        // The query may have stopped or failed meanwhile.
        if !state.withLock({ $0.keep(task) }) { task.cancel() }
    }

    private func end(_ source: QuerySource, _ outcome: Result<Void, any Error>) {
        let tasks = state.withLock { state in
            state.end(source, outcome)
            return state.takeEndedTasks()
        }
        for task in tasks { task.cancel() }
    }

    /// Ends the query; the results stay.
    public func stop() {
        let tasks = state.withLock { state in
            state.end(.success(()))
            return state.takeEndedTasks()
        }
        for task in tasks { task.cancel() }
    }

    /// Whether `start` was called.
    public var isStarted: Bool { state.withLock { $0.isStarted } }
    /// Whether the results are still incomplete.
    public var isGathering: Bool { state.withLock { $0.isGathering } }
    /// Whether the query has ended.
    public var isStopped: Bool { state.withLock { $0.outcome != nil } }

    // MARK: Results

    /// The results in the order of `sortDescriptors`, then as a tree is listed.
    public var results: [MetadataItem] { state.withLock { $0.shown() } }
    /// The number of results.
    public var resultCount: Int { results.count }

    /// Freezes the results until `enableUpdates` has been called as often.
    public func disableUpdates() { state.withLock { $0.disable() } }
    /// Ends one `disableUpdates`. The last one reports all changes made meanwhile.
    public func enableUpdates() { state.withLock { $0.enable() } }

    /// The events from now on. Each sequence gets all of them; a slow reader gets the missed ones merged. The sequence
    /// ends when the query stops, and throws `UbiquitousFileError` if the container's mount ends. When another
    /// container is unmounted, its documents are removed from the results.
    public var updates: Updates {
        let (inbox, signals) = UpdateInbox.make(order: MetadataOrder(descriptors: sortDescriptors))
        let number = state.withLock { $0.add(inbox) }
        inbox.whenLeft { [weak self] in self?.state.withLock { $0.remove(number) } }
        return Updates(inbox: inbox, signals: signals)
    }

    /// The sequence of events.
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
                    // No more signals: the query has ended, or this task was cancelled.
                    if await signals.next() == nil, inbox.outcome == nil { return nil }
                }
            }
        }
    }
}
