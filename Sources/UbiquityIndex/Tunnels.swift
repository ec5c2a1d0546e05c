package import UbiquityCore
internal import UbiquitySystem

/// Names of documents that were given up a moment ago, so that one which is taken again by the same saving is known to
/// be the same document's.
///
/// Only this process knows them: after its end a name that is taken again is a new item's, and nothing is lost.
/// What is found here is a hint: an item may have changed since, and is looked at before anything is done with it.
final class Tunnels: Sendable {
    /// How long a name is remembered (`design.md` section 4: 15 s, as long as on Windows).
    static let window = Duration.seconds(15)
    /// Names remembered at a time; with more, the oldest are forgotten.
    static let capacity = 1024
    /// Bytes of attributes that are remembered of a document that was deleted; one with more, which hardly any has,
    /// comes back only until its deletion has gone up.
    static let attributesKept = 4096

    struct GivenUp: Sendable {
        /// Where the document was.
        var place: ItemRow.Entry
        var key: ItemKey
        var id: ItemID
        /// The process (or thread) that did it; 0 if that is not known.
        var process: Int32
        /// By the machine's uptime.
        var at: Duration
        /// It was renamed to a name that is ignored: what it will be is not known yet, so nothing of it goes up.
        var isHeld: Bool
        /// The document as it was, if it was deleted: the index forgets it when the deletion has gone up.
        var removed: ItemRow?
        /// Who has the name now.
        var taker: ItemKey?
    }

    /// Names remembered of one document: it may be renamed by a person, and then given a backup by who saves it.
    static let placesKept = 4

    fileprivate struct State {
        var byPlace: [ItemRow.Entry: GivenUp] = [:]
        /// In the order of time.
        var places: [ItemKey: [ItemRow.Entry]] = [:]
        /// In the order of time; places that were forgotten since may still be in it.
        var order: [(place: ItemRow.Entry, at: Duration)] = []
    }

    private let state = Lock(State())

    /// Notes that a document has lost its name.
    /// - Parameter new: the place it has now; nil if it was deleted.
    func giveUp(_ given: GivenUp, for new: ItemRow.Entry?) {
        state.withLock { state in
            state.forget(before: given.at - Self.window)
            let known = state.places[given.key] ?? []
            if let new, known.contains(new) { return state.forget(given.key) }
            for place in known {
                state.byPlace[place]?.isHeld = given.isHeld
                state.byPlace[place]?.removed = given.removed
            }
            guard known.count < Self.placesKept else { return }
            if let other = state.byPlace[given.place] { state.forget(given.place, of: other.key) }
            state.byPlace[given.place] = given
            state.places[given.key, default: []].append(given.place)
            state.order.append((given.place, given.at))
            if state.byPlace.count > Self.capacity { state.forgetOldest() }
        }
    }

    /// The document that had the name.
    func owner(of place: ItemRow.Entry, at now: Duration) -> GivenUp? {
        state.withLock { $0.byPlace[place].flatMap { $0.at > now - Self.window ? $0 : nil } }
    }

    /// What the document gave up, and somebody else has now; of several the last.
    func origin(of key: ItemKey, at now: Duration) -> GivenUp? {
        state.withLock { $0.givenUp(by: key, since: now - Self.window).last { $0.taker != nil } }
    }

    func noteTaker(_ taker: ItemKey, of place: ItemRow.Entry) {
        state.withLock { if $0.byPlace[place] != nil { $0.byPlace[place]?.taker = taker } }
    }

    /// The index forgets a document that was deleted, whose version is another by now than at its deletion if a save of
    /// it was on its way then.
    func noteForgetting(_ key: ItemKey, version: VersionID?) {
        state.withLock { state in
            for place in state.places[key] ?? [] { state.byPlace[place]?.removed?.version = version }
        }
    }

    func forget(_ key: ItemKey) { state.withLock { $0.forget(key) } }

    /// How long a document's changes are still held; nil if they are not.
    func held(_ key: ItemKey, at now: Duration) -> Duration? {
        let given = state.withLock { $0.givenUp(by: key, since: now - Self.window).last { $0.isHeld } }
        return given.map { $0.at + Self.window - now }
    }

    /// How long until some document is held no longer; nil if none is.
    func nextEnd(at now: Duration) -> Duration? {
        state.withLock { state in
            state.byPlace.values.lazy.filter { $0.isHeld && $0.at > now - Self.window }
                .map { $0.at + Self.window - now }.min()
        }
    }

    var isEmpty: Bool { state.withLock { $0.byPlace.isEmpty } }
}

extension Tunnels.State {
    fileprivate mutating func forget(before limit: Duration) {
        while let oldest = order.first, oldest.at <= limit { forgetOldest() }
    }

    fileprivate mutating func forgetOldest() {
        guard !order.isEmpty else { return }
        let (place, at) = order.removeFirst()
        guard let given = byPlace[place], given.at == at else { return }
        forget(place, of: given.key)
    }

    fileprivate mutating func forget(_ place: ItemRow.Entry, of key: ItemKey) {
        byPlace[place] = nil
        places[key]?.removeAll { $0 == place }
        if places[key]?.isEmpty == true { places[key] = nil }
    }

    fileprivate mutating func forget(_ key: ItemKey) {
        for place in places.removeValue(forKey: key) ?? [] { byPlace[place] = nil }
    }

    fileprivate func givenUp(by key: ItemKey, since limit: Duration) -> [Tunnels.GivenUp] {
        (places[key] ?? []).compactMap { byPlace[$0] }.filter { $0.at > limit }
    }
}

extension ItemIndex {
    /// Whether an item's changes wait because it may get its old name back in a moment.
    package func isHeld(_ key: ItemKey) -> Bool {
        !tunnels.isEmpty && tunnels.held(key, at: timekeeper.uptime()) != nil
    }

    /// How long until the changes of some item that is held may go up; nil if none is.
    package func timeUntilHoldEnds() -> Duration? { tunnels.nextEnd(at: timekeeper.uptime()) }
}
