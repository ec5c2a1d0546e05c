internal import CUbiquityShims
internal import Synchronization
internal import UbiquitySystem

/// Sets the priority of the direct servers while requests arrive, and releases threads that inherited their core
/// binding (see `CoreBinding`).
///
/// When an answer is sent, the scheduler looks for a core for the program. A core that runs a thread of the lowest
/// priority (SCHED_IDLE) counts as free, so the program continues at once where it was. Next to a server of usual
/// priority it is moved to another core, which must be woken, at each call (measured on two idle cores: `git status` 5
/// to 7 ms instead of 10 to 50). On a busy machine, though, an idle-priority server would hardly run. A server seen
/// waiting for its core gets the usual priority. If a program waited for that call (not a file's release, which no
/// program waits for), all servers run at usual priority for a while.
final class ServerWatch: Sendable {
    private static let pause: Duration = .milliseconds(10)
    /// In looks: after this many without a request the watch sleeps, and at this interval it releases threads.
    private static let idleLooks = 100
    private static let threadLooks = 10
    /// How often in a row a server must be seen waiting for its core.
    private static let starvedLooks = 2

    /// Whether there is anything to watch.
    let isNeeded: Bool
    private let usesIdleClass: Bool
    private let isAwake = Atomic(false)
    private let bell = Monitor(false)
    private let servers = Lock([DirectServer]())
    private let isYielding: Atomic<Bool>
    /// Whether a program has waited for a server that did not run, since the last look.
    private let hasStarved = Atomic(false)

    init(policy: ServingPolicy) {
        usesIdleClass = policy.uses(.idle)
        isNeeded = usesIdleClass || policy.uses(.bind)
        isYielding = Atomic(usesIdleClass)
    }

    func add(_ server: DirectServer) { servers.withLock { $0.append(server) } }

    /// Sets the priority of a server's thread before it serves.
    func begin() {
        guard isYielding.load(ordering: .sequentiallyConsistent) else { return }
        _ = CUbiquity_setIdlePolicy(0, 1)
        // The setting may have changed meanwhile.
        if !isYielding.load(ordering: .sequentiallyConsistent) { _ = CUbiquity_setIdlePolicy(0, 0) }
    }

    /// Wakes the watch when a request arrives. Called by each server.
    func noteRequest() {
        guard isNeeded, !isAwake.load(ordering: .sequentiallyConsistent),
            !isAwake.exchange(true, ordering: .sequentiallyConsistent)
        else { return }
        bell.withLock { $0 = true }
        bell.signal()
    }

    /// Wakes the watch at the end.
    func wake() {
        bell.withLock { $0 = true }
        bell.signal()
    }

    /// Records that a server runs that waited for its core and got the usual priority. The server calls it.
    /// - Parameter opcode: the request that waited.
    func noteTurn(of opcode: UInt32) {
        if !OpcodeSet.unawaited.contains(opcode) { hasStarved.store(true, ordering: .sequentiallyConsistent) }
        begin()
    }

    // MARK: The watch's thread

    private struct Look {
        var last: [UInt64] = []
        /// When each server last served, and how often in a row it was seen waiting since.
        var active: [Int] = []
        var waits: [Int] = []
        var number = 0
        /// The last look at which any server had served.
        var busy = 0
        var priority = ServingPriority()
        var known: Set<Int32> = []
    }

    /// - Parameter own: numbers of the threads that are bound on purpose or were made by the session.
    func run(isEnding: () -> Bool, own: () -> Set<Int32>) {
        var look = Look()
        while !isEnding() {
            if look.number - look.busy > Self.idleLooks { sleep(&look) }
            _ = bell.wait(atMost: Self.pause) { _ -> Void? in isEnding() ? () : nil }
            look.number += 1
            review(&look)
            guard look.number % Self.threadLooks == 0 else { continue }
            do throws(Errno) { try CoreBinding.releaseOthers(than: own, &look.known) } catch {}
        }
        servers.withLock { $0 = [] }
    }

    /// Sleeps until a request arrives. The first one after a while must be served also if all cores are busy, so the
    /// servers have the usual priority meanwhile.
    private func sleep(_ look: inout Look) {
        let wasYielding = isYielding.load(ordering: .relaxed)
        if wasYielding { set(isYielding: false) }
        isAwake.store(false, ordering: .sequentiallyConsistent)
        // A server that just began still found the watch awake.
        if servers.withLock({ $0 }).map(\.served).elementsEqual(look.last) {
            bell.wait { rings -> Void? in rings ? () : nil }
        }
        bell.withLock { $0 = false }
        isAwake.store(true, ordering: .sequentiallyConsistent)
        if wasYielding { set(isYielding: true) }
        look.busy = look.number
    }

    private func review(_ look: inout Look) {
        let servers = servers.withLock { $0 }
        while look.last.count < servers.count {
            look.last.append(0)
            look.active.append(-Self.idleLooks)
            look.waits.append(0)
        }
        for (place, server) in servers.enumerated() {
            let count = server.served
            if count != look.last[place] {
                (look.last[place], look.active[place], look.waits[place]) = (count, look.number, 0)
                look.busy = look.number
            } else if look.number - look.active[place] < Self.idleLooks, Self.waitsForACore(server.thread) {
                look.waits[place] += 1
                if look.waits[place] == Self.starvedLooks { prefer(server) }
            } else {
                look.waits[place] = 0
            }
        }
        guard usesIdleClass else { return }
        let isStarved = hasStarved.exchange(false, ordering: .sequentiallyConsistent)
        if look.priority.look(look.number, isStarved: isStarved) { set(isYielding: look.priority.isYielding) }
    }

    /// Raises a server's priority until it runs. The server then reports the request that waited.
    private func prefer(_ server: DirectServer) {
        guard isYielding.load(ordering: .relaxed), server.thread != 0 else { return }
        server.isPreferred.store(true, ordering: .sequentiallyConsistent)
        _ = CUbiquity_setIdlePolicy(server.thread, 0)
    }

    private func set(isYielding: Bool) {
        self.isYielding.store(isYielding, ordering: .sequentiallyConsistent)
        for server in servers.withLock({ $0 }) where server.thread != 0 {
            _ = CUbiquity_setIdlePolicy(server.thread, isYielding ? 1 : 0)
        }
    }

    /// Whether a thread runs or is ready to run.
    private static func waitsForACore(_ thread: Int32) -> Bool {
        guard let line = try? SmallFile.read("/proc/self/task/\(thread)/stat", limit: 1024),
            let end = line.lastIndex(of: UInt8(ascii: ")")), end + 2 < line.count
        else { return false }
        return line[end + 2] == UInt8(ascii: "R")
    }
}
