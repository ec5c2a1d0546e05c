internal import UbiquityCore
internal import UbiquitySystem

/// The contacts that were recorded recently, so that not every request writes to the database.
final class RecentContacts: Sendable {
    struct Key: Hashable {
        var holder: TokenHolder
        var device: DeviceID?
    }

    private let recorded = Lock<[Key: Timestamp]>([:])

    /// Whether a contact must be recorded now. The answer counts as the record.
    func isDue(_ key: Key, _ now: Timestamp) -> Bool {
        recorded.withLock { recorded in
            // A clock that was set back does not stop the records.
            if let last = recorded[key], last <= now, now < last.advanced(bySeconds: CloudLimits.contactInterval) {
                return false
            }
            if recorded.count >= CloudLimits.recentContacts { recorded.removeAll() }
            recorded[key] = now
            return true
        }
    }
}
