package import UbiquityCoordination
package import UbiquityCore

/// A small tree and some processes, with an arbiter whose clock the test advances by hand.
///
/// Folders: 1 (top), 10 in 1, 11 in 10, 12 in 1; package 20 in 10, folder 21 and package 22 in package 20.
/// Files: 100… in 10, 200… in 11, 300… in 12, 400… in 20, 500… in 21, 600… in 22, all others in 1.
package struct ModelWorld {
    package struct Tree: Surroundings {
        package static let folders: Set<Int64> = [1, 10, 11, 12, 20, 21, 22]
        package static let packages: Set<ItemKey> = [ItemKey(20), ItemKey(22)]
        package var parents: [ItemKey: ItemKey] = [
            ItemKey(10): ItemKey(1), ItemKey(11): ItemKey(10), ItemKey(12): ItemKey(1), ItemKey(20): ItemKey(10),
            ItemKey(21): ItemKey(20), ItemKey(22): ItemKey(20),
        ]
        /// The process that started a process.
        package var starters: [Int32: Int32] = [:]
        package var names: [ItemKey: ItemName] = [:]

        package func parent(of item: ItemKey) -> ItemKey? {
            if let parent = parents[item] { return parent }
            guard item != .root else { return nil }
            let folders: [Int64: Int64] = [1: 10, 2: 11, 3: 12, 4: 20, 5: 21, 6: 22]
            return ItemKey(folders[item.rawValue / 100] ?? 1)
        }

        package func ancestry(of folder: ItemKey) -> Ancestry {
            var folders = [folder]
            while let parent = folders.last.flatMap(parent(of:)) { folders.append(parent) }
            return Ancestry(folders: folders, package: folders.last { Self.packages.contains($0) })
        }

        package func entry(of item: ItemKey) -> ClaimTarget.Entry? {
            parent(of: item).map { ClaimTarget.Entry(parent: $0, name: name(of: item)) }
        }

        package func name(of item: ItemKey) -> ItemName { names[item] ?? ItemName(stored: Array("\(item.rawValue)".utf8)) }

        package func isAlive(_ process: Int32) -> Bool { true }

        package func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool {
            lineage(of: process).contains(ancestor)
        }

        package func lineage(of process: Int32) -> [Int32] {
            Array(sequence(first: process) { starters[$0] })
        }
    }

    package var tree = Tree()
    package var arbiter: Arbiter
    package var now: Duration = .seconds(1000)
    /// Actions that the arbiter returned and the test has not checked yet.
    package var log: [ArbiterAction] = [] {
        didSet {
            for case .granted(let id) in log.suffix(max(0, log.count - oldValue.count)) { granted.insert(id) }
        }
    }
    private var granted: Set<ClaimID> = []

    package init(isStrict: Bool = false) { arbiter = Arbiter(isStrict: isStrict) }

    package func target(_ number: Int64) -> ClaimTarget {
        let item = ItemKey(number)
        return ClaimTarget(item: item, entry: tree.entry(of: item), isFolder: Tree.folders.contains(number))
    }

    package mutating func client(_ name: String = "app", process: Int32 = 0) -> ClientID {
        arbiter.add(ClientDescription(name: name, process: process))!
    }

    package mutating func presenter(
        of client: ClientID, _ number: Int64, _ abilities: Set<PresenterDescription.Ability> = Set(
            PresenterDescription.Ability.allCases)
    ) -> PresenterID {
        arbiter.add(PresenterDescription(target: target(number), abilities: abilities), for: client, in: tree)!
    }

    /// Asks for a claim.
    @discardableResult
    package mutating func claim(
        _ owner: ClaimOwner, _ intents: [(Int64, Access)], presenter: PresenterID? = nil, purpose: String? = nil,
        limit: Duration = .seconds(3600), mayWait: Bool = true
    ) -> ClaimID {
        let request = ClaimRequest(
            owner: owner, intents: intents.map { ClaimIntent(target($0.0), $0.1) }, presenter: presenter,
            purpose: purpose, waitingTime: limit, mayWait: mayWait)
        let (id, actions) = arbiter.request(request, now: now, in: tree)
        log += actions
        return id
    }

    @discardableResult
    package mutating func read(_ client: ClientID, _ number: Int64, _ options: ReadingOptions = []) -> ClaimID {
        claim(.client(client), [(number, .reading(options))])
    }

    @discardableResult
    package mutating func write(_ client: ClientID, _ number: Int64, _ option: WritingOption? = nil) -> ClaimID {
        claim(.client(client), [(number, .writing(option))])
    }

    /// A plain open.
    @discardableResult
    package mutating func open(_ process: Int32, _ number: Int64, writes: Bool = false) -> ClaimID {
        let intent = ClaimIntent(target(number), writes ? .writing(.forMerging) : .reading([]))
        switch arbiter.access(
            [intent], by: process, waitingTime: .seconds(3600), mayWait: true, now: now, in: tree)
        {
        case .granted(let id):
            log.append(.granted(id))
            return id
        case .requested(let id, let actions):
            log += actions
            return id
        }
    }

    package mutating func close(_ id: ClaimID, _ number: Int64) {
        log += arbiter.endAccess(id, to: ItemKey(number), now: now, in: tree)
    }

    package mutating func end(_ id: ClaimID) { log += arbiter.end(id, now: now, in: tree) }
    package mutating func leave(_ client: ClientID) { log += arbiter.remove(client, now: now, in: tree) }

    package mutating func answer(_ question: Question, refusal: String? = nil) {
        log += arbiter.answer(question.id, by: question.client, refusal: refusal, now: now, in: tree)
    }

    package mutating func pass(_ time: Duration) {
        now += time
        log += arbiter.tick(now: now, in: tree)
    }

    package func isGranted(_ id: ClaimID) -> Bool { granted.contains(id) }
    package func failure(of id: ClaimID) -> ClaimFailure? {
        for case .failed(id, let failure) in log { return failure }
        return nil
    }
    /// All questions so far.
    package var questions: [Question] {
        log.compactMap { if case .ask(let question) = $0 { question } else { nil } }
    }
    package func reacquired(_ question: Question) -> Bool {
        log.contains(.reacquire(question.id, question.client, question.presenter))
    }
}
