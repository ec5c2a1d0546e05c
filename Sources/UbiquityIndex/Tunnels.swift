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

    fileprivate struct State {
        var byPlace: [ItemRow.Entry: GivenUp] = [:]
        var places: [ItemKey: ItemRow.Entry] = [:]
        /// In the order of time; places that were forgotten since may still be in it.
        var order: [(place: ItemRow.Entry, at: Duration)] = []
    }

    private let state = Lock(State())

    /// Notes that a document has lost its name. Of several names it gives up, the first counts: there it was.
    /// - Parameter new: the place it has now; nil if it was deleted.
    func giveUp(_ given: GivenUp, for new: ItemRow.Entry?) {
        state.withLock { state in
            state.forget(before: given.at - Self.window)
            if let first = state.places[given.key], state.byPlace[first] != nil {
                guard first != new else {
                    state.byPlace[first] = nil
                    state.places[given.key] = nil
                    return
                }
                state.byPlace[first]?.isHeld = given.isHeld
                state.byPlace[first]?.removed = given.removed
                return
            }
            if let other = state.byPlace[given.place] { state.places[other.key] = nil }
            state.byPlace[given.place] = given
            state.places[given.key] = given.place
            state.order.append((given.place, given.at))
            if state.byPlace.count > Self.capacity { state.forgetOldest() }
        }
    }

    /// The document that had the name.
    func owner(of place: ItemRow.Entry, at now: Duration) -> GivenUp? {
        state.withLock { $0.byPlace[place].flatMap { $0.at > now - Self.window ? $0 : nil } }
    }

    /// What the document gave up.
    func origin(of key: ItemKey, at now: Duration) -> GivenUp? {
        state.withLock { state in
            state.places[key].flatMap { state.byPlace[$0] }.flatMap { $0.at > now - Self.window ? $0 : nil }
        }
    }

    func noteTaker(_ taker: ItemKey, of place: ItemRow.Entry) {
        state.withLock { if $0.byPlace[place] != nil { $0.byPlace[place]?.taker = taker } }
    }

    func forget(_ key: ItemKey) {
        state.withLock { state in
            if let place = state.places.removeValue(forKey: key) { state.byPlace[place] = nil }
        }
    }

    /// How long a document's changes are still held; nil if they are not.
    func held(_ key: ItemKey, at now: Duration) -> Duration? {
        guard let given = origin(of: key, at: now), given.isHeld else { return nil }
        return given.at + Self.window - now
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
        byPlace[place] = nil
        places[given.key] = nil
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
