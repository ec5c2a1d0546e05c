import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// The items whose departure from the mount is announced, until the move is done.
final class AnnouncedMoves: Sendable {
    /// Announcements of one client at a time.
    static let maximumPerClient = 1000

    /// An item in its old place.
    struct Item: Sendable, Hashable {
        var key: ItemKey
        var entry: ClaimTarget.Entry?
    }

    private let items = Lock<[UInt64: [String: Item]]>([:])

    func begin(_ path: String, _ item: Item, of client: UInt64) throws(UbiquityError) {
        let isFull = items.withLock { items in
            let count = items[client]?.count ?? 0
            guard count < Self.maximumPerClient || items[client]?[path] != nil else { return true }
            items[client, default: [:]][path] = item
            return false
        }
        guard !isFull else {
            throw UbiquityError(
                .tooManyRequests, "the client has announced \(Self.maximumPerClient) moves, the maximum", at: path,
                remedy: "report finished moves")
        }
    }

    /// Nil if the move was not announced.
    func end(_ path: String, of client: UInt64) -> Item? {
        items.withLock { $0[client]?.removeValue(forKey: path) }
    }

    func removeAll(of client: UInt64) { items.withLock { _ = $0.removeValue(forKey: client) } }
}
