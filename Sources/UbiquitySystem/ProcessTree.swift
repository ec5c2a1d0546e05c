/// The current ancestry of processes, as reported by the kernel.
package enum ProcessTree {
    /// Maximum generations examined: far more than shells, terminals and sessions make, and an end if a number was
    /// reused.
    private static let maximumDepth = 64

    /// Returns whether the process (or thread) is `ancestor`, or was started by it or its children. False if it has
    /// ended, or may not be examined.
    package static func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool {
        guard process > 0, ancestor > 0 else { return false }
        if process == ancestor { return true }
        let ancestor = leader(of: ancestor)
        return lineage(of: process) { $0 == ancestor }
    }

    /// Returns the process of a thread; the number itself if that is unknown.
    package static func leader(of thread: Int32) -> Int32 { ProcessStatus(thread)?.leader ?? thread }

    /// Returns the process and its ancestors, nearest first, as far as they are known.
    package static func lineage(of process: Int32) -> [Int32] {
        var found = [Int32]()
        _ = lineage(of: process) { next in
            found.append(next)
            return false
        }
        return found
    }

    /// Returns whether `isWanted` accepts the process or an ancestor, nearest first, as far as they are known.
    package static func lineage(of process: Int32, contains isWanted: (Int32) -> Bool) -> Bool {
        var next = process
        for _ in 0..<maximumDepth {
            guard let status = ProcessStatus(next) else { return false }
            if isWanted(status.leader ?? next) { return true }
            guard let parent = status.parent else { return false }
            next = parent
        }
        return false
    }

    /// Returns whether it runs; a zombie does not.
    package static func isAlive(_ process: Int32) -> Bool {
        guard let status = ProcessStatus(process) else { return false }
        return !status.isZombie
    }

    /// Returns whether a signal is pending for the thread, to be delivered after its call. False if it has ended, or
    /// may not be examined.
    package static func hasSignal(_ thread: Int32) -> Bool { ProcessStatus(thread)?.hasSignal ?? false }

    /// Returns whether it is being killed. False if it has ended, or may not be examined.
    package static func isDying(_ thread: Int32) -> Bool { ProcessStatus(thread)?.isDying ?? false }

    /// Returns whether a pending signal should end its call (see `ProcessStatus`). True if it may not be examined.
    package static func hasSignalToEnd(_ thread: Int32) -> Bool { ProcessStatus(thread)?.hasSignalToEnd ?? true }
}
