import FoundationEssentials
import UbiquitySystem

/// The sync attributes that a presenter observes, with the values it last learned of.
final class ObservedAttributes: Sendable {
    private let keys: Set<UbiquitousItem.Key>
    private let known = Lock(UbiquitousItemResourceValues())

    /// Reads the present values: changes are counted from here.
    init(_ keys: Set<UbiquitousItem.Key>, of url: URL) async {
        self.keys = keys
        guard let now = await values(at: url) else { return }
        known.withLock { $0 = now }
    }

    /// Returns the observed attributes that have changed since the last call.
    func changes(at url: URL) async -> Set<UbiquitousItem.Key> {
        guard let now = await values(at: url) else { return [] }
        return known.withLock { known in
            defer { known = now }
            return now.differences(from: known)
        }
    }

    /// Nil if nothing is observed, or if the item cannot be examined now; the next message reports what has changed.
    private func values(at url: URL) async -> UbiquitousItemResourceValues? {
        guard !keys.isEmpty else { return nil }
        return try? await UbiquitousItem(at: url).resourceValues(forKeys: keys)
    }
}
