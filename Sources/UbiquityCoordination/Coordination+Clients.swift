package import UbiquityCore
internal import UbiquitySystem

/// A message to a client.
package enum ClientMessage: Sendable {
    case ask(Question)
    case reacquire(QuestionID, PresenterID)
    case passedOver(QuestionID, PresenterID)
    case event(PresenterEvent)
    /// Sent regularly, so that a lost connection is noticed.
    case heartbeat
}

/// An event of an item that a client presents.
package struct PresenterEvent: Sendable, Hashable {
    package enum Kind: String, Sendable, Hashable {
        case changed, moved, removed, added
        case attributesChanged = "ubiquity-attributes-changed"
        case versionGained = "version-gained"
        case versionLost = "version-lost"
        case versionResolved = "version-resolved"
        /// Changes that arrived together from the cloud are sent between these two.
        case begin, end
    }

    package var kind: Kind
    package var item: ItemKey?
    /// The present and the former path, from the container's top.
    package var path: String?
    package var oldPath: String?
    package var version: String?
    package var isConflict: Bool?
    /// For a change: the changed parts, of "content", "mode", "times", "attributes".
    package var fields: [String]?

    package init(
        _ kind: Kind, item: ItemKey? = nil, path: String? = nil, oldPath: String? = nil, version: String? = nil,
        isConflict: Bool? = nil, fields: [String]? = nil
    ) {
        self.fields = fields
        self.kind = kind
        self.item = item
        self.path = path
        self.oldPath = oldPath
        self.version = version
        self.isConflict = isConflict
    }
    /// The client's presenters of the item itself, and of folders above it.
    package var presenters: [PresenterID] = []
    package var folderPresenters: [PresenterID] = []
}

extension Coordination {
    /// Maximum messages kept for a slow client. It is notified if some were dropped.
    private static let maximumWaiting = 16_384

    // MARK: Clients

    /// Registers a client until `remove`; nil if there are too many.
    package func add(
        _ description: ClientDescription, answerTime: Duration
    ) -> (client: ClientID, messages: AsyncStream<ClientMessage>)? {
        let (messages, source) = AsyncStream.makeStream(
            of: ClientMessage.self, bufferingPolicy: .bufferingOldest(Self.maximumWaiting))
        let client = state.withLock { state -> ClientID? in
            guard let id = state.arbiter.add(description, answerTime: answerTime) else { return nil }
            state.outboxes[id] = source
            return id
        }
        return client.map { ($0, messages) }
    }

    /// Removes a client and releases all of its claims.
    package func remove(_ client: ClientID) {
        let outbox = work { arbiter, now, surroundings in
            (client, arbiter.remove(client, now: now, in: surroundings))
        }
        let source = state.withLock { state in
            state.losses.remove(outbox)
            presenterCount.withLock { $0 = state.arbiter.presenterCount }
            return state.outboxes.removeValue(forKey: outbox)
        }
        source?.finish()
    }

    package func isKnown(_ client: ClientID) -> Bool { state.withLock { $0.arbiter.isKnown(client) } }

    /// Releases a client's claim, or cancels its request.
    ///
    /// - Returns: False if the client has no such claim.
    package func end(_ id: ClaimID, of client: ClientID) -> Bool {
        work { arbiter, now, surroundings in
            guard arbiter.has(client, id) else { return (false, []) }
            return (true, arbiter.end(id, now: now, in: surroundings))
        }
    }

    package func beat() {
        state.withLock { state in
            for source in state.outboxes.values { source.yield(.heartbeat) }
        }
    }

    /// Ends the streams of all clients, which removes the clients.
    package func close() {
        let clients = state.withLock { Array($0.outboxes.keys) }
        for client in clients { remove(client) }
    }

    /// Returns whether messages were dropped for a client since the last call.
    package func takeLoss(of client: ClientID) -> Bool { state.withLock { $0.losses.remove(client) != nil } }

    /// Records that events were lost; every client is notified.
    package func noteLoss() { state.withLock { state in state.losses.formUnion(state.outboxes.keys) } }

    func send(_ message: ClientMessage, to client: ClientID, _ state: inout State) {
        if case .dropped = state.outboxes[client]?.yield(message) { state.losses.insert(client) }
    }

    // MARK: Presenters

    /// Registers a presenter; nil if the client does not exist or has too many.
    package func add(_ presenter: PresenterDescription, for client: ClientID) -> PresenterID? {
        state.withLock { state in
            defer { presenterCount.withLock { $0 = state.arbiter.presenterCount } }
            return state.arbiter.add(presenter, for: client, in: surroundings)
        }
    }

    /// - Returns: False if the client has no such presenter.
    @discardableResult
    package func remove(_ presenter: PresenterID, of client: ClientID) -> Bool {
        let isKnown = work { arbiter, now, surroundings in
            let isKnown = arbiter.client(of: presenter) == client
            return (isKnown, arbiter.remove(presenter, of: client, now: now, in: surroundings))
        }
        state.withLock { state in presenterCount.withLock { $0 = state.arbiter.presenterCount } }
        return isKnown
    }

    /// - Returns: False if the client does not exist.
    @discardableResult
    package func answer(_ question: QuestionID, by client: ClientID, refusal: String?) -> Bool {
        let isKnown = state.withLock { state -> Bool in
            if let presenter = state.arbiter.presenter(asked: question, of: client) {
                tellObserver(.answered(refusal: refusal), question, client, presenter, state)
            }
            return state.arbiter.clients[client] != nil
        }
        guard isKnown else { return false }
        work { arbiter, now, surroundings in
            ((), arbiter.answer(question, by: client, refusal: refusal, now: now, in: surroundings))
        }
        return true
    }

    package func target(of presenter: PresenterID) -> ClaimTarget? {
        state.withLock { $0.arbiter.target(of: presenter) }
    }

    // MARK: Events

    /// Sends events that happened together to clients, in order. Each client gets each event once, however many
    /// presenters it has.
    ///
    /// - Parameters:
    ///   - places: For each event, the present and the former entries of its item.
    ///   - doer: The program that made the change, if any. Its clients get no message.
    ///   - isRemote: Whether the change came from the cloud. Then `begin` and `end` enclose the messages.
    package func tell(
        _ events: [(event: PresenterEvent, places: [ClaimTarget.Entry?])], doneBy doer: Doer?, isRemote: Bool
    ) {
        guard hasPresenters else { return }
        state.withLock { state in
            var begun: Set<ClientID> = []
            for (event, places) in events {
                for (client, told) in recipients(of: event, places, doer, state.arbiter) {
                    if isRemote, begun.insert(client).inserted {
                        send(.event(PresenterEvent(.begin)), to: client, &state)
                    }
                    send(.event(told), to: client, &state)
                }
            }
            for client in begun { send(.event(PresenterEvent(.end)), to: client, &state) }
        }
    }

    private func recipients(
        of event: PresenterEvent, _ places: [ClaimTarget.Entry?], _ doer: Doer?, _ arbiter: Arbiter
    ) -> [(ClientID, PresenterEvent)] {
        guard let item = event.item else { return [] }
        var told: [ClientID: PresenterEvent] = [:]
        for place in places {
            let concerned = arbiter.presenters(concernedBy: item, entry: place, in: surroundings)
            for presenter in concerned.item { note(presenter, \.presenters) }
            for presenter in concerned.folders { note(presenter, \.folderPresenters) }
        }
        func note(_ presenter: PresenterID, _ list: WritableKeyPath<PresenterEvent, [PresenterID]>) {
            guard let client = arbiter.client(of: presenter) else { return }
            if !(told[client, default: event][keyPath: list].contains(presenter)) {
                told[client, default: event][keyPath: list].append(presenter)
            }
        }
        return told.filter { client, _ in
            // Version events are also sent to the client that made them.
            guard let doer, event.kind.isOfContent else { return true }
            // The file was opened before any presenter was registered.
            guard let clients = doer.clients else { return !arbiter.program(doer.process, isOf: client, surroundings) }
            return !clients.contains(client)
        }.sorted { $0.key < $1.key }
    }

    /// Returns the presented items in a folder, at any depth.
    package func itemsPresented(in folder: ItemKey) -> [ItemKey] {
        guard hasPresenters else { return [] }
        return state.withLock { $0.arbiter.itemsPresented(in: folder, surroundings) }
    }

    /// Updates presenters after an item has moved: their units are computed again.
    package func noteMove(of item: ItemKey, isFolder: Bool, to entry: ClaimTarget.Entry?) {
        guard hasPresenters else { return }
        state.withLock { $0.arbiter.noteMove(of: item, isFolder: isFolder, to: entry, in: surroundings) }
    }
}

extension PresenterEvent.Kind {
    fileprivate var isOfContent: Bool {
        switch self {
        case .changed, .moved, .removed, .added, .attributesChanged: true
        case .versionGained, .versionLost, .versionResolved, .begin, .end: false
        }
    }
}
