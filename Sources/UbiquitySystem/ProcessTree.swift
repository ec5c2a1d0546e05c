/// Which process started which, as the kernel tells now.
package enum ProcessTree {
    /// Generations looked at: far more than shells, terminals and sessions make, and an end if a number was given anew.
    private static let maximumDepth = 64
    /// Bytes of `/proc/N/status`: about 1500, more with many groups.
    private static let maximumStatus = 65_536

    private struct Status {
        var leader: Int32
        var parent: Int32
        var isZombie: Bool
    }

    /// Whether the process (or thread) is `ancestor`, or was started by it or by its children. False for one that has
    /// ended, or of which nothing may be known.
    package static func process(_ process: Int32, descendsFrom ancestor: Int32) -> Bool {
        guard process > 0, ancestor > 0 else { return false }
        if process == ancestor { return true }
        let ancestor = status(of: ancestor)?.leader ?? ancestor
        return lineage(of: process) { $0 == ancestor }
    }

    /// Whether the process, or one that it was started by, is wanted: asked from the nearest on, as far as they may be
    /// known.
    package static func lineage(of process: Int32, contains isWanted: (Int32) -> Bool) -> Bool {
        var next = process
        for _ in 0..<maximumDepth {
            guard next > 0, let status = status(of: next) else { return false }
            if isWanted(status.leader) { return true }
            next = status.parent
        }
        return false
    }

    /// Whether it runs; one that has ended and is not yet waited for does not.
    package static func isAlive(_ process: Int32) -> Bool {
        guard let status = status(of: process) else { return false }
        return !status.isZombie
    }

    private static func status(of process: Int32) -> Status? {
        guard let bytes = try? SmallFile.read("/proc/\(process)/status", limit: maximumStatus) else { return nil }
        var status = Status(leader: process, parent: 0, isZombie: false)
        for line in bytes.split(separator: UInt8(ascii: "\n")) {
            let parts = line.split(maxSplits: 1) { $0 == UInt8(ascii: ":") }
            guard parts.count == 2 else { continue }
            let value = String(decoding: parts[1].drop { $0 == UInt8(ascii: "\t") }, as: UTF8.self)
            switch String(decoding: parts[0], as: UTF8.self) {
            case "State": status.isZombie = value.hasPrefix("Z") || value.hasPrefix("X")
            case "Tgid": status.leader = Int32(value) ?? process
            case "PPid":
                status.parent = Int32(value) ?? 0
                return status
            default: continue
            }
        }
        return status
    }
}
