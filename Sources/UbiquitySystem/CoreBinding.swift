import CUbiquityShims
import Glibc
import Synchronization

/// Threads that are bound to a core, and the care that no others are.
///
/// A thread or process is bound as the thread is that makes it, and the pools of the system make their threads from
/// wherever there is work for one. So those who bind threads have the others looked after by `releaseOthers`.
package enum CoreBinding {
    /// Bits of cores, as sched_setaffinity(2) takes them: 1,024, the most it is ever built for by default.
    private static let words = 16
    /// Where this process may run, as it was when the first thread was to be bound.
    private static let allowed = mask(of: 0)
    private static let isUsed = Atomic(false)

    /// Binds the calling thread, if the process may run there at all.
    package static func bind(to core: UInt16) {
        isUsed.store(true, ordering: .sequentiallyConsistent)
        guard allows(core) else { return }
        var mask = [UInt64](repeating: 0, count: words)
        mask[Int(core) / 64] = 1 << UInt64(core % 64)
        _ = CUbiquity_setCores(0, mask, words)
    }

    /// The core that the calling thread runs on; nil if no thread is bound to one.
    package static var current: UInt16? {
        isUsed.load(ordering: .relaxed) ? UInt16(exactly: CUbiquity_core()) : nil
    }

    /// Has the calling thread run elsewhere than on a core, if the process may.
    package static func avoid(_ core: UInt16) {
        guard allows(core) else { return }
        var mask = allowed
        mask[Int(core) / 64] &= ~(1 << UInt64(core % 64))
        guard mask.contains(where: { $0 != 0 }) else { return }
        _ = CUbiquity_setCores(0, mask, words)
    }

    /// Lets the calling thread run wherever the process may, at the usual priority.
    package static func release() { release(0) }

    private static func release(_ thread: Int32) {
        guard isUsed.load(ordering: .sequentiallyConsistent) else { return }
        _ = CUbiquity_setCores(thread, allowed, words)
        _ = CUbiquity_setIdlePolicy(thread, 0)
    }

    /// Lets all threads of this process run where it may, but for these and those that were looked at before.
    /// - Parameters:
    ///   - own: asked last: by then it has each of them that was seen to be bound.
    ///   - known: numbers of threads; those that were looked at are added, those that have ended go.
    package static func releaseOthers(than own: () -> Set<Int32>, _ known: inout Set<Int32>) throws(Errno) {
        let threads = Set(try FileSystem.entries(of: "/proc/self/task").compactMap { Int32($0.text) })
        let unusual = threads.subtracting(known).filter { mask(of: $0) != allowed || CUbiquity_hasIdlePolicy($0) != 0 }
        for thread in unusual.isEmpty ? [] : unusual.subtracting(own()) { release(thread) }
        known = threads
    }

    private static func allows(_ core: UInt16) -> Bool {
        let word = Int(core) / 64
        return word < words && allowed[word] & 1 << UInt64(core % 64) != 0
    }

    private static func mask(of thread: Int32) -> [UInt64] {
        var mask = [UInt64](repeating: 0, count: words)
        _ = CUbiquity_cores(thread, &mask, words)
        return mask
    }
}
