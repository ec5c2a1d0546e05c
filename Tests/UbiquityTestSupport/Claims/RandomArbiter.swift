internal import UbiquityCoordination
internal import UbiquityCore

/// One life of an arbiter with clients and programs that claim at random, are slow, refuse, and die.
///
/// Time is virtual. After every step the internal state must be consistent, and no two conflicting claims may be
/// granted. Every request must be answered within a bound, whatever the others do.
package struct RandomArbiter {
    private struct Held {
        var id: ClaimID
        var owner: ClaimOwner
        /// The item of a plain open.
        var plain: ItemKey?
        var until: Duration
    }

    private static let items: [Int64] = [7, 8, 9, 10, 11, 12, 20, 100, 200, 300, 400, 500, 600]
    private static let steps = 60
    /// The longest time that these clients keep a claim.
    private static let longestHold = 20
    /// Limit for the answer to a request: every earlier claimant may keep its claim, be asked, and be passed over.
    private static let patience: Duration = .seconds(3000)

    private var random: SeededRandom
    private var world: ModelWorld
    private var clients: [ClientID] = []
    private var asked: [(question: Question, at: Duration)] = []
    private var pending: [ClaimID: (owner: ClaimOwner, plain: ItemKey?, since: Duration)] = [:]
    private var held: [Held] = []
    private var seen = 0
    private var checked = 0
    private var slow: Set<ClientID> = []

    package init(seed: UInt64) {
        random = SeededRandom(seed)
        world = ModelWorld(isStrict: random.chance(0.5))
        world.tree.starters = [51: 50]
        for _ in 0..<Int.random(in: 1...5, using: &random) { addClient() }
    }

    /// Returns the failure, or nil.
    package mutating func play() -> String? {
        for _ in 0..<Self.steps {
            act()
            if let failure = settle() { return failure }
        }
        return drain()
    }

    // MARK: Actions

    private mutating func addClient() {
        let client = world.client("app", process: random.chance(0.5) ? 50 : Int32(clients.count) + 100)
        clients.append(client)
        if random.below(4) == 0 { slow.insert(client) }
        for _ in 0..<Int.random(in: 0...2, using: &random) {
            guard let item = Self.items.randomElement(using: &random) else { continue }
            let all = PresenterDescription.Ability.allCases
            _ = world.presenter(of: client, item, Set(all.filter { _ in random.chance(0.5) }))
        }
    }

    private mutating func act() {
        switch random.below(20) {
        case 0..<8: claim()
        case 8..<12: open()
        case 12: cancel()
        case 13: die()
        case 14: addClient()
        case 15: move()
        default: world.pass(.milliseconds(Int.random(in: 1...3000, using: &random)))
        }
    }

    private mutating func access() -> Access {
        let reading: [ReadingOptions] = [[], [], .withoutChanges, .immediatelyAvailableMetadataOnly]
        let writing: [WritingOption?] = [nil, nil, .forDeleting, .forMoving, .forMerging, .forReplacing]
        if random.chance(0.5) { return .reading(reading.randomElement(using: &random) ?? []) }
        return .writing(writing.randomElement(using: &random) ?? nil)
    }

    private mutating func claim() {
        guard let client = clients.randomElement(using: &random) else { return }
        let owner = random.below(8) == 0 ? ClaimOwner.system : .client(client)
        let count = Int.random(in: 1...3, using: &random)
        let intents = (0..<count).map { _ in (Self.items.randomElement(using: &random) ?? 7, access()) }
        let purpose = random.below(3) == 0 ? "purpose \(random.below(3))" : nil
        let id = world.claim(owner, intents, purpose: purpose, limit: .seconds(10_000))
        pending[id] = (owner, nil, world.now)
    }

    private mutating func open() {
        let item = Self.items.filter { $0 >= 100 || $0 < 10 }.randomElement(using: &random) ?? 7
        let processes: [Int32] = [50, 51, 60, 61, 62]
        let process = processes.randomElement(using: &random) ?? 60
        let id = world.open(process, item, writes: random.chance(0.5))
        pending[id] = (.program(process), ItemKey(item), world.now)
    }

    private mutating func cancel() {
        guard let id = pending.keys.sorted().randomElement(using: &random) else { return }
        world.end(id)
    }

    private mutating func die() {
        guard let client = clients.randomElement(using: &random) else { return }
        clients.removeAll { $0 == client }
        world.leave(client)
        held.removeAll { $0.owner == .client(client) }
        pending = pending.filter { $0.value.owner != .client(client) }
        asked.removeAll { $0.question.client == client }
    }

    /// Moves an item under claims that are granted at once, like a rename.
    private mutating func move() {
        let item: Int64 = [11, 12, 100, 200].randomElement(using: &random) ?? 100
        let folder: Int64 = item == 11 || item == 12 ? [1, 10].randomElement(using: &random) ?? 1 : 12
        let target = ClaimTarget(name: world.tree.name(of: ItemKey(item)), in: ItemKey(folder))
        let request = ClaimRequest(
            owner: .system,
            intents: [
                ClaimIntent(world.target(item), .writing(.forMoving)), ClaimIntent(target, .writing(.forReplacing)),
            ],
            mayWait: false)
        let (id, actions) = world.arbiter.request(request, now: world.now, in: world.tree)
        world.log += actions
        guard actions.contains(.granted(id)) else { return }
        world.tree.parents[ItemKey(item)] = ItemKey(folder)
        world.arbiter.noteMove(
            of: ItemKey(item), isFolder: item < 100, to: world.tree.entry(of: ItemKey(item)), in: world.tree)
        world.end(id)
    }

    // MARK: Results

    /// Records the arbiter's actions, releases claims after their time, and answers questions.
    private mutating func settle() -> String? {
        var before = -1
        while before != world.log.count {
            before = world.log.count
            readLog()
            giveBack()
            answer()
        }
        if world.log.count != checked, let violation = world.arbiter.violation(in: world.tree) { return violation }
        checked = world.log.count
        for (id, request) in pending where world.now - request.since > Self.patience { return "\(id) is starved" }
        return nil
    }

    private mutating func readLog() {
        while seen < world.log.count {
            let action = world.log[seen]
            seen += 1
            switch action {
            case .granted(let id):
                guard let request = pending.removeValue(forKey: id) else { continue }
                let time = Duration.milliseconds(Int.random(in: 0...Self.longestHold * 1000, using: &random))
                held.append(Held(id: id, owner: request.owner, plain: request.plain, until: world.now + time))
            case .failed(let id, _): pending[id] = nil
            case .ask(let question):
                // A slow client answers after its time, or never.
                let most = slow.contains(question.client) ? 60_000 : 5000
                asked.append((question, world.now + .milliseconds(Int.random(in: 0...most, using: &random))))
            case .reacquire, .passedOver: continue
            }
        }
    }

    private mutating func giveBack() {
        for claim in held where claim.until <= world.now {
            if let plain = claim.plain { world.close(claim.id, plain.rawValue) } else { world.end(claim.id) }
        }
        held.removeAll { $0.until <= world.now }
    }

    private mutating func answer() {
        for (question, at) in asked where at <= world.now {
            let refuses = random.below(10) == 0
            world.answer(question, refusal: refuses ? "no" : nil)
        }
        asked.removeAll { $0.at <= world.now }
    }

    /// No new claims begin: every open one must end.
    private mutating func drain() -> String? {
        for _ in 0..<2000 where !pending.isEmpty || !held.isEmpty {
            world.pass(.seconds(3))
            if let failure = settle() { return failure }
        }
        guard pending.isEmpty, held.isEmpty else { return "\(pending.keys.sorted()) wait for ever" }
        for client in clients { world.leave(client) }
        clients = []
        return world.arbiter.violation(in: world.tree)
    }
}
