internal import CUbiquityShims
internal import Synchronization
internal import UbiquitySystem

/// Looks after the direct servers while there are requests: at which priority they serve, and that the threads that
/// others have made meanwhile are not bound as they are (see `CoreBinding`).
///
/// When an answer is sent, the scheduler looks for a core for the program. One that runs a thread of the lowest
/// priority (SCHED_IDLE) counts as free: so the program goes on at once where it was. Beside a server of the usual
/// priority it is moved to another core, which has to be woken, and so with each call (measured on two idle cores:
/// `git status` 5 to 7 ms instead of 10 to 50). On a busy machine, though, such a server would hardly have a turn:
/// when one is seen to wait for its core it gets the usual priority, and if it was a program's call that waited, and
/// not a file's release, of which nobody wants to know, all serve at the usual priority for a while.
final class ServerWatch: Sendable {
    private static let pause: Duration = .milliseconds(10)
    /// In looks: after so many without a request the watch sleeps; and so often threads are looked at.
    private static let idleLooks = 100
    private static let threadLooks = 10
    /// A server that was seen waiting for its core so often in a row.
    private static let starvedLooks = 2

    private let isAwake = Atomic(false)
    private let bell = Monitor(false)
    private let servers = Lock([DirectServer]())
    private let isYielding = Atomic(true)
    /// A program's call has waited for a server that had no turn, since the last look.
    private let hasStarved = Atomic(false)

    func add(_ server: DirectServer) { servers.withLock { $0.append(server) } }

    /// A server's thread, before it serves.
    func begin() {
        guard isYielding.load(ordering: .sequentiallyConsistent) else { return }
        _ = CUbiquity_setIdlePolicy(0, 1)
        // It may have been changed meanwhile.
        if !isYielding.load(ordering: .sequentiallyConsistent) { _ = CUbiquity_setIdlePolicy(0, 0) }
    }

    /// There is a request. Called by each server.
    func noteRequest() {
        guard !isAwake.load(ordering: .sequentiallyConsistent),
            !isAwake.exchange(true, ordering: .sequentiallyConsistent)
        else { return }
        bell.withLock { $0 = true }
        bell.signal()
    }

    /// For the end: wakes the watch.
    func wake() {
        bell.withLock { $0 = true }
        bell.signal()
    }

    /// A server that had waited for its core, and got the usual priority for that, has its turn. Called by it.
    /// - Parameter opcode: what had waited.
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
        /// The last look at which any had served.
        var busy = 0
        var priority = ServingPriority()
        var known: Set<Int32> = []
    }

    /// - Parameter own: the numbers of the threads that are bound on purpose, or made by the session.
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

    /// Until there is a request. The first one after a while is to be served also where all cores are busy, so the
    /// servers have the usual priority meanwhile.
    private func sleep(_ look: inout Look) {
        let wasYielding = isYielding.load(ordering: .relaxed)
        if wasYielding { set(isYielding: false) }
        isAwake.store(false, ordering: .sequentiallyConsistent)
        // Who has just begun to serve found the watch awake.
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
        let isStarved = hasStarved.exchange(false, ordering: .sequentiallyConsistent)
        if look.priority.look(look.number, isStarved: isStarved) { set(isYielding: look.priority.isYielding) }
    }

    /// Has a server have its turn. It tells what had waited then.
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

    /// Whether a thread runs, or would if it had its turn.
    private static func waitsForACore(_ thread: Int32) -> Bool {
        guard let line = try? SmallFile.read("/proc/self/task/\(thread)/stat", limit: 1024),
            let end = line.lastIndex(of: UInt8(ascii: ")")), end + 2 < line.count
        else { return false }
        return line[end + 2] == UInt8(ascii: "R")
    }
}
