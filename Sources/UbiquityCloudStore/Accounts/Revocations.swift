internal import UbiquitySystem

/// Announces revoked tokens to the servers of this process, which end their connections.
package final class Revocations: Sendable {
    package typealias Observer = @Sendable (_ token: Int64) -> Void

    private let observers = Lock<[Observer]>([])

    package init() {}

    /// Calls `observer` for every token that is revoked from now on.
    package func observe(_ observer: @escaping Observer) { observers.withLock { $0.append(observer) } }

    package func announce(_ tokens: some Sequence<Int64>) {
        let observers = observers.withLock { $0 }
        for token in tokens { for observer in observers { observer(token) } }
    }
}
