/// Which process started which, as the kernel tells now.
package enum ProcessTree {
    /// Generations looked at: far more than shells, terminals and sessions make, and an end if a number was given anew.
    private static let maximumDepth = 64

    /// Whether the process (or thread) is `ancestor`, or was started by it or by its children. False for one that has
    /// ended, or of which nothing may be known.
    package static func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool {
        guard process > 0, ancestor > 0 else { return false }
        if process == ancestor { return true }
        let ancestor = leader(of: ancestor)
        return lineage(of: process) { $0 == ancestor }
    }

    /// The process that a thread is of; the number itself if that cannot be known.
    package static func leader(of thread: Int32) -> Int32 { ProcessStatus(thread)?.leader ?? thread }

    /// The process and those that it was started by, nearest first, as far as they may be known.
    package static func lineage(of process: Int32) -> [Int32] {
        var found = [Int32]()
        _ = lineage(of: process) { next in
            found.append(next)
            return false
        }
        return found
    }

    /// Whether the process, or one that it was started by, is wanted: asked from the nearest on, as far as they may be
    /// known.
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

    /// Whether it runs; one that has ended and is not yet waited for does not.
    package static func isAlive(_ process: Int32) -> Bool {
        guard let status = ProcessStatus(process) else { return false }
        return !status.isZombie
    }

    /// Whether a signal waits for the thread, which it will see when its call is over. False for one that has ended,
    /// or of which nothing may be known.
    package static func hasSignal(_ thread: Int32) -> Bool { ProcessStatus(thread)?.hasSignal ?? false }

    /// Whether it is being killed. False for one that has ended, or of which nothing may be known.
    package static func isDying(_ thread: Int32) -> Bool { ProcessStatus(thread)?.isDying ?? false }

    /// Whether one of these is to end its call (see `ProcessStatus`). True for one of which nothing may be known.
    package static func hasSignalToEnd(_ thread: Int32) -> Bool { ProcessStatus(thread)?.hasSignalToEnd ?? true }
}
