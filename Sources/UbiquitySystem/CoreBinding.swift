import CUbiquityShims
import Glibc
import Synchronization

/// Binds threads to cores, and keeps other threads unbound.
///
/// A new thread or process inherits its creator's binding, and the system's pools create threads wherever there is
/// work. So code that binds threads calls `releaseOthers` for the rest.
package enum CoreBinding {
    /// Words of core bits for sched_setaffinity(2): 1,024 cores, the maximum of default kernels.
    private static let words = 16
    /// The cores this process may use, as they were before the first thread was bound.
    private static let allowed = mask(of: 0)
    private static let isUsed = Atomic(false)

    /// Binds the calling thread to a core, if the process may use it.
    package static func bind(to core: UInt16) {
        isUsed.store(true, ordering: .sequentiallyConsistent)
        guard allows(core) else { return }
        var mask = [UInt64](repeating: 0, count: words)
        mask[Int(core) / 64] = 1 << UInt64(core % 64)
        _ = CUbiquity_setCores(0, mask, words)
    }

    /// The core of the calling thread; nil if no thread is bound to a core.
    package static var current: UInt16? {
        isUsed.load(ordering: .relaxed) ? UInt16(exactly: CUbiquity_core()) : nil
    }

    /// Keeps the calling thread off a core, if the process may use others.
    package static func avoid(_ core: UInt16) {
        guard allows(core) else { return }
        var mask = allowed
        mask[Int(core) / 64] &= ~(1 << UInt64(core % 64))
        guard mask.contains(where: { $0 != 0 }) else { return }
        _ = CUbiquity_setCores(0, mask, words)
    }

    /// Lets the calling thread use all cores of the process, at the normal priority.
    package static func release() { release(0) }

    private static func release(_ thread: Int32) {
        guard isUsed.load(ordering: .sequentiallyConsistent) else { return }
        _ = CUbiquity_setCores(thread, allowed, words)
        _ = CUbiquity_setIdlePolicy(thread, 0)
    }

    /// Lets all threads of this process use all of its cores, except its own bound ones and those examined before.
    ///
    /// - Parameters:
    ///   - own: Returns the bound threads. It is called last, so that it includes every thread seen to be bound.
    ///   - known: Thread numbers examined so far. New ones are added, ended ones removed.
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
