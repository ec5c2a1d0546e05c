internal import UbiquityCore
internal import UbiquitySystem

/// Remembers names that documents gave up recently, so that a name taken again by the same save stays the same
/// document's.
///
/// Only this process knows them: after its end, a name taken again belongs to a new item, and nothing is lost. An entry
/// is a hint: the item may have changed since and must be examined before use.
final class Tunnels: Sendable {
    /// How long a name is remembered (15 s, as on Windows).
    static let window = Duration.seconds(15)
    /// Maximum names remembered; the oldest are dropped first.
    static let capacity = 1024
    /// Maximum bytes of attributes remembered of a deleted document. One with more, which is rare, can return only
    /// until its deletion is uploaded.
    static let attributesKept = 4096

    struct GivenUp: Sendable {
        /// The document's former place.
        var place: ItemRow.Entry
        var key: ItemKey
        var id: ItemID
        /// The process (or thread) that gave the name up; 0 if unknown.
        var process: Int32
        /// The machine's uptime at that moment.
        var at: Duration
        /// Whether the document is tunnelled: renamed to an ignored name. Its outcome is open, so none of its changes
        /// is uploaded yet.
        var isHeld: Bool
        /// The document before its deletion. The index deletes its row once the deletion is uploaded.
        var removed: ItemRow?
        /// The item that has the name now.
        var taker: ItemKey?
    }

    /// Maximum names remembered per document: a user may rename it, and then a save makes a backup of it.
    static let placesKept = 4

    fileprivate struct State {
        var byPlace: [ItemRow.Entry: GivenUp] = [:]
        /// In the order of time.
        var places: [ItemKey: [ItemRow.Entry]] = [:]
        /// In the order of time. It may include places that were dropped since.
        var order: [(place: ItemRow.Entry, at: Duration)] = []
    }

    private let state = Lock(State())

    /// Records that a document has lost its name.
    ///
    /// - Parameter new: Its present place; nil if it was deleted.
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

    /// Returns the document that had the name.
    func owner(of place: ItemRow.Entry, at now: Duration) -> GivenUp? {
        state.withLock { $0.byPlace[place].flatMap { $0.at > now - Self.window ? $0 : nil } }
    }

    /// Returns the last name that the document gave up and another item has now.
    func origin(of key: ItemKey, at now: Duration) -> GivenUp? {
        state.withLock { $0.givenUp(by: key, since: now - Self.window).last { $0.taker != nil } }
    }

    func noteTaker(_ taker: ItemKey, of place: ItemRow.Entry) {
        state.withLock { if $0.byPlace[place] != nil { $0.byPlace[place]?.taker = taker } }
    }

    /// Updates the version of a deleted document when the index deletes its row. The version differs from that at the
    /// deletion if a save was being uploaded then.
    func noteForgetting(_ key: ItemKey, version: VersionID?) {
        state.withLock { state in
            for place in state.places[key] ?? [] { state.byPlace[place]?.removed?.version = version }
        }
    }

    func forget(_ key: ItemKey) { state.withLock { $0.forget(key) } }

    /// Returns how long a document stays tunnelled; nil if it is not.
    func held(_ key: ItemKey, at now: Duration) -> Duration? {
        let given = state.withLock { $0.givenUp(by: key, since: now - Self.window).last { $0.isHeld } }
        return given.map { $0.at + Self.window - now }
    }

    /// Returns the time until the next document stops being tunnelled; nil if there is none.
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
