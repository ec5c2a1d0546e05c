/// Whether the cloud has ever proven an answer by a digest. The device keeps that over its restarts: a proxy that
/// removes the digests' fields makes a cloud look like an older one, which never had them.
package struct DigestProof: Sendable {
    /// From an earlier run.
    package var isKnown: Bool
    /// Keeps that the cloud has proven an answer. Called once, and not if that is known. It must return at once.
    package var remember: @Sendable () -> Void

    package init(isKnown: Bool = false, remember: @escaping @Sendable () -> Void = {}) {
        self.isKnown = isKnown
        self.remember = remember
    }
}
