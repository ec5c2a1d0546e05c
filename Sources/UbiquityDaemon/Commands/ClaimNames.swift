import UbiquityCoordination
import UbiquitySystem

/// A claim by the name that its client gave it.
struct NamedClaim: Hashable {
    var client: UInt64
    var token: String
}

/// The named claims of all clients, until they end.
final class ClaimNames: Sendable {
    private let claims = Lock<[NamedClaim: ClaimID]>([:])
    /// Claims still being looked up, and whether each was released by then.
    private let coming = Lock<[NamedClaim: Bool]>([:])

    func beginLookup(_ name: NamedClaim) { coming.withLock { $0[name] = false } }
    func endLookup(_ name: NamedClaim) { coming.withLock { _ = $0.removeValue(forKey: name) } }

    /// - Returns: whether the claim was released before it was known.
    func add(_ claim: ClaimID, as name: NamedClaim) -> Bool {
        claims.withLock { $0[name] = claim }
        // From here on, a release by name finds the claim. An earlier release is found here.
        return isReleased(name)
    }

    func isReleased(_ name: NamedClaim) -> Bool { coming.withLock { $0[name] ?? false } }

    /// - Returns: whether the claim is still being looked up; then it is released as soon as it is known.
    func releaseComing(_ name: NamedClaim) -> Bool {
        coming.withLock { coming in
            guard coming[name] != nil else { return false }
            coming[name] = true
            return true
        }
    }

    @discardableResult
    func remove(_ name: NamedClaim) -> ClaimID? { claims.withLock { $0.removeValue(forKey: name) } }

    func remove(_ claim: ClaimID, of client: UInt64) {
        claims.withLock { claims in
            guard let place = claims.firstIndex(where: { $0.value == claim && $0.key.client == client }) else { return }
            claims.remove(at: place)
        }
    }

    func removeAll(of client: UInt64) {
        claims.withLock { claims in claims = claims.filter { $0.key.client != client } }
    }
}
