internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// That those who use a package have been asked to save and let go of it.
enum PackageClaim: Sendable {
    /// They have not all answered.
    case asking
    /// They have, and wait until `done` is called. The number tells one claim from the next.
    case granted(UInt64, done: @Sendable () -> Void)
}

// Before it is decided about two states of a package, or a newer one shown, whoever shows it saves what he has: it is
// part of the state here then, and not lost when that gives way. That may take as long as a client takes, so it is not
// waited for where the changes of all other items go up.
extension SyncEngine {
    /// Asks those who use the package, the first time.
    /// - Returns: what is to be called when the package may be used again; nil if it is to be tried again later.
    func claimPackage(_ package: ItemKey) -> (@Sendable () -> Void)? {
        guard let openItems, openItems.mayBeUsed(package) else { return {} }
        let (granted, isNew) = push.withLock { state -> ((@Sendable () -> Void)?, Bool) in
            switch state.packageClaims[package] {
            case .granted(_, let done):
                state.packageClaims[package] = nil
                return (done, false)
            case .asking: return (nil, false)
            case nil:
                state.packageClaims[package] = .asking
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
            push.withLock { state in
                state.packageClaims[package] = .granted(number, done: done)
                state.rescanAt[package] = nil
            }
            pushSignal.fire()
            downloadSignal.fire()
            // Should there be nothing to decide about any more.
            try? await timekeeper.sleep(for: SyncLimits.packageClaim)
            giveBack(number, of: package)
        } catch {
            logger.info("a package is in use, its other state waits", metadata: ["reason": "\(error)"])
            push.withLock { $0.packageClaims[package] = nil }
        }
    }

    private func giveBack(_ number: UInt64, of package: ItemKey) {
        let done = push.withLock { state -> (@Sendable () -> Void)? in
            guard case .granted(number, let done) = state.packageClaims[package] else { return nil }
            state.packageClaims[package] = nil
            return done
        }
        done?()
    }

    /// Whether its changes wait until all have answered.
    func isAsking(about package: ItemKey) -> Bool {
        if case .asking = push.withLock({ $0.packageClaims[package] }) { true } else { false }
    }
}
