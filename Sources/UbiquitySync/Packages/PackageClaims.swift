internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The request to a package's users to save and release it.
enum PackageClaim: Sendable {
    /// Some have not answered yet.
    case asking
    /// All have answered, and they wait until `done` is called. The number distinguishes claims.
    case granted(UInt64, done: @Sendable () -> Void)
}

/// Asks the clients that show or have claimed a package to save and release it: before a decision about two states of
/// the package, and before a newer state is shown. Their edits are then part of the local state, and are kept if that
/// loses. A client may take long, so the uploads of other items do not wait for it.
///
/// It holds the claims. The uploader and `StagedPackages` call it. It calls no other room.
final class PackageClaims: SyncRoom {
    let context: SyncContext
    private let claims = Lock([ItemKey: PackageClaim]())

    init(_ context: SyncContext) { self.context = context }

    /// Asks the users of the package to release it, the first time it is called.
    /// - Returns: the closure to call when the package may be used again. Nil if the caller must try again later.
    func claim(_ package: ItemKey) -> (@Sendable () -> Void)? {
        guard let openItems, openItems.mayBeUsed(package) else { return {} }
        let (granted, isNew) = claims.withLock { claims -> ((@Sendable () -> Void)?, Bool) in
            switch claims[package] {
            case .granted(_, let done):
                claims[package] = nil
                return (done, false)
            case .asking: return (nil, false)
            case nil:
                claims[package] = .asking
                return (nil, true)
            }
        }
        if isNew { Task(executorPreference: executor) { [self] in await ask(openItems, for: package) } }
        return granted
    }

    private func ask(_ openItems: any OpenItems, for package: ItemKey) async {
        do {
            let done = try await openItems.prepare(for: [.content(package)]) ?? {}
            let number = random.next()
            claims.withLock { $0[package] = .granted(number, done: done) }
            agenda.resume(package)
            agenda.happened(.packageWasReleased)
            // There may be nothing to decide about any more.
            try? await timekeeper.sleep(for: SyncLimits.packageClaim)
            giveBack(number, of: package)
        } catch {
            logger.info("a package is in use; its decision waits", metadata: ["reason": "\(error)"])
            claims.withLock { $0[package] = nil }
        }
    }

    private func giveBack(_ number: UInt64, of package: ItemKey) {
        let done = claims.withLock { claims -> (@Sendable () -> Void)? in
            guard case .granted(number, let done) = claims[package] else { return nil }
            claims[package] = nil
            return done
        }
        done?()
    }

    /// Whether the package's changes wait for the answers of its users.
    func isAsking(about package: ItemKey) -> Bool {
        if case .asking = claims.withLock({ $0[package] }) { true } else { false }
    }
}
