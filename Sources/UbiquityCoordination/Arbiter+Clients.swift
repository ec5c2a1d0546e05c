package import UbiquityCore

// Clients and their presenters.
extension Arbiter {
    /// Registers a client; nil if there are too many.
    package mutating func add(
        _ description: ClientDescription, answerTime: Duration = ArbiterLimits.answerTime
    ) -> ClientID? {
        guard clients.count < ArbiterLimits.clients else { return nil }
        let id = ClientID(nextNumber())
        clients[id] = Client(description: description, answerTime: answerTime)
        return id
    }

    /// Removes a client: its claims are released, its requests cancelled, and no request waits for its answers.
    package mutating func remove(
        _ id: ClientID, now: Duration, in surroundings: some Surroundings
    ) -> [ArbiterAction] {
        guard let client = clients[id] else { return [] }
        var actions = [ArbiterAction]()
        for presenter in client.presenters.sorted(by: >) {
            actions += remove(presenter, of: id, now: now, in: surroundings)
        }
        // The youngest come first, so that a waiting request is not granted what the client is about to lose.
        for claim in client.claims.sorted(by: >) { actions += end(claim, now: now, in: surroundings) }
        clients[id] = nil
        return actions.filter { !$0.isFor(id) }
    }

    /// Registers a presenter for an item; nil if the client does not exist or has too many.
    package mutating func add(
        _ description: PresenterDescription, for client: ClientID, in surroundings: some Surroundings
    ) -> PresenterID? {
        guard let count = clients[client]?.presenters.count, count < ArbiterLimits.presentersPerClient else {
            return nil
        }
        let id = PresenterID(nextNumber())
        let presenter = Presenter(
            client: client, description: description, unit: unit(of: description.target, in: surroundings))
        presenters[id] = presenter
        clients[client]?.presenters.insert(id)
        list(id, presenter)
        return id
    }

    package mutating func remove(
        _ id: PresenterID, of client: ClientID, now: Duration, in surroundings: some Surroundings
    ) -> [ArbiterAction] {
        guard let presenter = presenters[id], presenter.client == client else { return [] }
        unlist(id, presenter)
        presenters[id] = nil
        clients[client]?.presenters.remove(id)
        var actions = [ArbiterAction]()
        let open = questions.values.filter { $0.question.presenter == id }.sorted { $0.question.id < $1.question.id }
        for question in open {
            settle(question.question.id, of: question.request, now, surroundings, &actions)
            questions[question.question.id] = nil
        }
        return actions
    }

    /// Updates a presenter's target when the item has moved or a folder has become a package. Its unit is computed
    /// again.
    package mutating func replace(_ id: PresenterID, target: ClaimTarget, in surroundings: some Surroundings) {
        guard var presenter = presenters[id] else { return }
        unlist(id, presenter)
        presenter.description.target = target
        presenter.unit = unit(of: target, in: surroundings)
        presenters[id] = presenter
        list(id, presenter)
    }

    private mutating func list(_ id: PresenterID, _ presenter: Presenter) {
        presentersByUnit[presenter.unit, default: []].append(id)
        if let item = presenter.description.target.item { presentersByItem[item, default: []].append(id) }
        if presenter.isOfFolder { folderUnits += 1 }
        if presenter.description.target.isFolder, let folder = presenter.description.target.item {
            folderPresenters[folder, default: []].append(id)
        }
    }

    private mutating func unlist(_ id: PresenterID, _ presenter: Presenter) {
        presentersByUnit.take(id, at: presenter.unit)
        if let item = presenter.description.target.item { presentersByItem.take(id, at: item) }
        if presenter.isOfFolder { folderUnits -= 1 }
        if presenter.description.target.isFolder, let folder = presenter.description.target.item {
            folderPresenters.take(id, at: folder)
        }
    }

    // MARK: Recipients

    /// Returns the presenters of an item, and those of the folders above it.
    package func presenters(
        concernedBy item: ItemKey, entry: ClaimTarget.Entry?, in surroundings: some Surroundings
    ) -> (item: [PresenterID], folders: [PresenterID]) {
        guard !presenters.isEmpty else { return ([], []) }
        let own = (presentersByItem[item] ?? [])
        guard !folderPresenters.isEmpty, let entry else { return (own, []) }
        let above = surroundings.ancestry(of: entry.parent).folders.flatMap { folderPresenters[$0] ?? [] }
        return (own, above)
    }

    /// Returns the presented items in a folder, at any depth.
    package func itemsPresented(in folder: ItemKey, _ surroundings: some Surroundings) -> [ItemKey] {
        presentersByItem.keys.filter { item in
            guard item != folder, let entry = surroundings.entry(of: item) else { return false }
            return surroundings.ancestry(of: entry.parent).folders.contains(folder)
        }.sorted()
    }

    /// Returns whether a presenter shows the item, or the package that holds it.
    package func isPresented(_ target: ClaimTarget, in surroundings: some Surroundings) -> Bool {
        guard !presenters.isEmpty else { return false }
        return presentersByUnit[unit(of: target, in: surroundings)] != nil
    }

    package func isKnown(_ client: ClientID) -> Bool { clients[client] != nil }

    func has(_ client: ClientID, _ claim: ClaimID) -> Bool { clients[client]?.claims.contains(claim) ?? false }

    /// Returns the presenter that was asked a question whose answer is still awaited.
    func presenter(asked question: QuestionID, of client: ClientID) -> PresenterID? {
        guard let open = questions[question], open.question.client == client,
            requests[open.request]?.openQuestions.contains(question) ?? false
        else { return nil }
        return open.question.presenter
    }

    package func client(of presenter: PresenterID) -> ClientID? { presenters[presenter]?.client }
    package func target(of presenter: PresenterID) -> ClaimTarget? { presenters[presenter]?.description.target }
    package var hasPresenters: Bool { !presenters.isEmpty }
    package var presenterCount: Int { presenters.count }
    /// Clients whose process is known.
    package var clientProcesses: [(ClientID, Int32)] {
        clients.compactMap { $1.description.process > 0 ? ($0, $1.description.process) : nil }
    }

    /// Updates presenters after a move: those of the item, and of items in it, may belong to another package now.
    package mutating func noteMove(
        of item: ItemKey, isFolder: Bool, to entry: ClaimTarget.Entry?, in surroundings: some Surroundings
    ) {
        let moved = isFolder ? Array(presenters.keys) : presentersByItem[item] ?? []
        for id in moved {
            guard var target = presenters[id]?.description.target, let own = target.item else { continue }
            target.entry = own == item ? entry : surroundings.entry(of: own)
            replace(id, target: target, in: surroundings)
        }
    }

    /// Returns whether a client holds the target, or a package or folder above it, for writing.
    package func isBeingWritten(_ target: ClaimTarget, in surroundings: some Surroundings) -> Bool {
        guard !clients.isEmpty, !requests.isEmpty else { return false }
        let claim = UnitClaim(unit: unit(of: target, in: surroundings), access: .reading([]), isFolder: target.isFolder)
        return rivals(of: claim, surroundings).contains { id in
            guard let other = requests[id], other.state == .granted, case .client = other.owner else { return false }
            return true
        }
    }

    /// Returns the clients and programs that hold the target, or a package or folder above it, for writing.
    package func writers(of target: ClaimTarget, in surroundings: some Surroundings) -> [Writer] {
        let unit = unit(of: target, in: surroundings)
        let isFolder = target.isFolder || unit != target.ownUnit
        let claim = UnitClaim(unit: unit, access: .reading([]), isFolder: isFolder)
        var writers = rivals(of: claim, surroundings).compactMap { id -> Writer? in
            guard let other = requests[id], other.state == .granted else { return nil }
            switch other.owner {
            case .client(let client): return clients[client].map { .client(name: $0.description.name) }
            case .program(let process): return .program(process)
            case .system: return nil
            }
        }
        var holds = [ProgramHold]()
        if case .item(let item) = unit { holds += programs[item] ?? [] }
        if isFolder { holds += programsInside(claim, surroundings) }
        for hold in holds where hold.access.excludes(claim.access) { writers.append(.program(hold.process)) }
        return writers
    }

    /// An owner of a claim for writing.
    package enum Writer: Hashable, Sendable {
        case client(name: String)
        case program(Int32)
    }
}

extension Arbiter.Presenter {
    /// Whether its unit is a folder, or a package above the item.
    var isOfFolder: Bool { description.target.isFolder || unit != description.target.ownUnit }
}

extension ArbiterAction {
    /// Returns whether the action would send a message to that client.
    func isFor(_ client: ClientID) -> Bool {
        switch self {
        case .granted, .failed: false
        case .ask(let question): question.client == client
        case .reacquire(_, let told, _), .passedOver(_, let told, _): told == client
        }
    }
}
