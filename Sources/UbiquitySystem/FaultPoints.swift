import Glibc
import Synchronization
import UbiquityCore

/// Named places where a test can kill this process, make a call fail, or delay it.
///
/// `UBIQUITY_FAULT="index.commit:kill:3"` ends the process with SIGKILL at the third visit of that place;
/// `content.store:fail:1` makes the first `check` there throw; `mount.unmounted:stall:1` delays it. Commas separate
/// several entries. Without the variable and without a hook a place costs one load.
package enum FaultPoints {
    /// A function called at every place with its name; `check` throws what it returns.
    package typealias Hook = @Sendable (String) -> UbiquityError?

    enum Action: Hashable { case kill, fail, stall }

    /// Seconds of a stall: longer than any caller waits for a quick operation.
    private static let stall: UInt32 = 4

    /// The action at a place, and after how many more visits (1: the next).
    struct Plan: Hashable {
        let name: String
        let action: Action
        var remaining: Int
    }

    struct State {
        var plans: [Plan]
        /// Hooks by thread: tests run in parallel in one process.
        var hooks: [UInt: Hook] = [:]

        var isArmed: Bool { !hooks.isEmpty || !plans.isEmpty }
    }

    private static let state = Lock(State(plans: plans(in: environmentText)))

    /// True until the first visit has read the variable. A constant at the start spares later visits an initialization
    /// check.
    @usableFromInline static let isArmed = Atomic<Bool>(true)

    private static var environmentText: String { getenv("UBIQUITY_FAULT").map { String(cString: $0) } ?? "" }

    /// A place where the process may be killed.
    @inlinable
    package static func reach(_ name: StaticString) {
        if isArmed.load(ordering: .relaxed) { _ = visit(name.description) }
    }

    /// A place where the process may be killed or the call may fail.
    @inlinable
    package static func check(_ name: StaticString) throws(UbiquityError) {
        guard isArmed.load(ordering: .relaxed), let error = visit(name.description) else { return }
        throw error
    }

    /// A place where a system call may fail.
    @inlinable
    package static func fail(_ name: StaticString, with error: Errno) throws(Errno) {
        guard isArmed.load(ordering: .relaxed), visit(name.description) != nil else { return }
        throw error
    }

    /// Sets a hook for the calling thread, for tests in one process; nil removes it.
    package static func setHook(_ hook: Hook?) {
        state.withLock { state in
            state.hooks[UInt(pthread_self())] = hook
            isArmed.store(state.isArmed, ordering: .relaxed)
        }
    }

    @usableFromInline
    static func visit(_ name: String) -> UbiquityError? {
        let (action, hook) = state.withLock { state in
            isArmed.store(state.isArmed, ordering: .relaxed)
            return (take(name, &state.plans), state.hooks[UInt(pthread_self())])
        }
        switch action {
        case .kill: kill(getpid(), SIGKILL)
        case .fail: return UbiquityError(.io, "failed on purpose", at: name)
        case .stall: sleep(stall)
        case nil: break
        }
        return hook?(name)
    }

    /// Counts a visit and returns the action that is due.
    static func take(_ name: String, _ plans: inout [Plan]) -> Action? {
        var due: Action?
        for index in plans.indices where plans[index].name == name && plans[index].remaining > 0 {
            plans[index].remaining -= 1
            if plans[index].remaining == 0 { due = plans[index].action }
        }
        return due
    }

    /// Parses the variable. Malformed entries are left out: the variable is for tests only.
    static func plans(in text: String) -> [Plan] {
        text.split(separator: ",").compactMap { part in
            let fields = part.split(separator: ":", omittingEmptySubsequences: false)
            guard fields.count == 3, let count = Int(fields[2]), count > 0 else { return nil }
            switch fields[1] {
            case "kill": return Plan(name: String(fields[0]), action: .kill, remaining: count)
            case "fail": return Plan(name: String(fields[0]), action: .fail, remaining: count)
            case "stall": return Plan(name: String(fields[0]), action: .stall, remaining: count)
            default: return nil
            }
        }
    }
}
