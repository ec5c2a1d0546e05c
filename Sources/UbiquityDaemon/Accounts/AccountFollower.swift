import Logging
import UbiquityControl
import UbiquityCore
import UbiquityFUSE
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// Makes a running mount show the account of its device.
///
/// Each account has a state folder of its own, and a mount serves one of them. A change closes the container of the old
/// account completely, serves an empty container, and then opens the one of the new account. So the contents of two
/// accounts never meet. Everything that decides is in the state folder: a process that dies at any step continues there
/// at its next start, and changes that were not uploaded wait in the folder of their account.
final class AccountFollower: Sendable {
    private struct State {
        var bound: Bound?
        /// The last exchange that was begun. Each one waits for the one before.
        var last: Task<AccountReport, any Error>?
        var numbers = NodeNumbers.first
        var isOver = false
    }

    /// The mount, once it exists.
    private struct Bound {
        var plan: ServedContainer.Plan
        var session: FUSESession
        var host: ControlHost
        var current: CurrentContainer
    }

    private let state = Lock(State())
    /// The session's part of an exchange blocks.
    private let thread = BlockingPool(name: "exchange", threads: 1)

    func bind(
        _ current: CurrentContainer, _ plan: ServedContainer.Plan, _ session: FUSESession, _ host: ControlHost
    ) {
        state.withLock { $0.bound = Bound(plan: plan, session: session, host: host, current: current) }
    }

    /// Reads which account the device has, and shows it.
    /// - Throws: `.stale` if the mount is ending. Any error that prevents the account from being shown; the mount then
    ///   shows an empty folder, and nothing is lost.
    func follow() async throws -> AccountReport {
        let task = state.withLock { state in
            let before = state.last
            let task = Task { [self] in
                _ = await before?.result
                return try await followNow()
            }
            state.last = task
            return task
        }
        return try await task.value
    }

    /// Waits for the exchange in progress. No other one begins.
    func end() async {
        let last = state.withLock { state in
            state.isOver = true
            return state.last
        }
        _ = await last?.result
    }

    // MARK: The exchange

    private func followNow() async throws -> AccountReport {
        guard let bound = state.withLock({ $0.isOver ? nil : $0.bound }) else {
            throw UbiquityError(.stale, "the mount is ending or has not begun")
        }
        let device = bound.plan.settings.deviceFolder
        let account = try DeviceAccount.load(deviceFolder: device)
        let absence = try account.absence(deviceFolder: device)
        let before = bound.current.container
        guard before.account != account else {
            return AccountReport(hasChanged: false, account: before.parts.account, absence: absence)
        }
        bound.plan.logger.notice("the account of the device has changed")
        if before.renew(account) { return AccountReport(hasChanged: true, account: before.parts.account) }
        if !before.account.isVacant {
            // First an empty container: the old one must be closed before the next one opens its files.
            try await exchange(before, with: vacancy(account.isVacant ? account : .changing, bound), bound)
            FaultPoints.reach("account.left")
        }
        if account.isVacant {
            if before.account.isVacant { try await exchange(before, with: vacancy(account, bound), bound) }
        } else {
            try await enter(account, bound)
        }
        // The old container is closed by now, so its index has everything that waits.
        let waiting = try account.absence(deviceFolder: device)
        let after = bound.current.container
        if let waiting { after.relabel(account, waiting) }
        return AccountReport(hasChanged: true, account: after.parts.account, absence: waiting)
    }

    /// Opens the container of an account. If that fails, the mount stays empty and says why.
    private func enter(_ account: DeviceAccount, _ bound: Bound) async throws {
        var plan = bound.plan
        plan.account = account
        do {
            plan.folder = ContainerFolder(
                account: try account.folder(ofDevice: plan.settings.deviceFolder), container: plan.settings.container)
            try await exchange(bound.current.container, with: plan, bound)
        } catch {
            plan.logger.error("cannot show the account of the device", metadata: ["reason": "\(error)"])
            bound.current.container.parts.engine.signOut("cannot show the account: \(error)")
            throw error
        }
    }

    private func vacancy(_ account: DeviceAccount, _ bound: Bound) throws -> ServedContainer.Plan {
        var plan = bound.plan
        plan.account = account
        plan.folder = ContainerFolder(
            account: try account.folder(ofDevice: plan.settings.deviceFolder), container: plan.settings.container)
        return plan
    }

    /// Serves another container instead of `old`, which is closed.
    private func exchange(
        _ old: ServedContainer, with plan: ServedContainer.Plan, _ bound: Bound
    ) async throws {
        // Programs get errors, and nothing is transferred, from here on.
        if !old.account.isVacant { await old.signOut("signed out") }
        var plan = plan
        // The same empty container, for another account: only its reason changes.
        if plan.folder.path == old.parts.folder.path { return }
        let next = try open(&plan, old)
        FaultPoints.reach("account.opened")
        try await thread.run { [session = bound.session] in
            session.exchange(next.parts.claimedFileSystem)
            old.parts.claimedFileSystem.releaseAll()
        }
        FaultPoints.reach("account.exchanged")
        bound.current.exchange(next)
        next.start()
        bound.host.exchange(next.commands)
        next.announce()
        old.dismissClients()
        await old.stopWork()
        do { try await old.close() } catch {
            bound.plan.logger.error(
                "cannot close the former container; its next start repairs it", metadata: ["reason": "\(error)"])
        }
        FaultPoints.reach("account.closed")
    }

    private func open(_ plan: inout ServedContainer.Plan, _ old: ServedContainer) throws -> ServedContainer {
        let numbers = state.withLock { state in
            state.numbers = state.numbers.next
            return state.numbers
        }
        plan.numbers = numbers
        plan.kernel = NumberedKernelCache(plan.kernel, numbers)
        plan.features = old.parts.kernel
        return try ServedContainer(plan)
    }
}

/// The container that a mount serves now.
final class CurrentContainer: Sendable {
    private let state: Lock<ServedContainer>

    init(_ first: ServedContainer) { state = Lock(first) }

    var container: ServedContainer { state.withLock { $0 } }
    func exchange(_ next: ServedContainer) { state.withLock { $0 = next } }
}
