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
        let ancestor = leader(of: ancestor)
        return lineage(of: process) { $0 == ancestor }
    }

    /// The process that a thread is of; the number itself if that cannot be known.
    package static func leader(of thread: Int32) -> Int32 { status(of: thread)?.leader ?? thread }

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
        var rest = bytes[...]
        // By bytes, and no further than the lines that are wanted: this is on the way of opens.
        while !rest.isEmpty {
            if let state = value(of: "State:\t", in: rest)?.first {
                status.isZombie = state == UInt8(ascii: "Z") || state == UInt8(ascii: "X")
            } else if let leader = value(of: "Tgid:\t", in: rest) {
                status.leader = number(leader) ?? process
            } else if let parent = value(of: "PPid:\t", in: rest) {
                status.parent = number(parent) ?? 0
                break
            }
            rest = rest.drop { $0 != UInt8(ascii: "\n") }.dropFirst()
        }
        return status
    }

    /// What follows the label, if the text begins with it.
    private static func value(of label: StaticString, in text: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        label.withUTF8Buffer { text.starts(with: $0) ? text.dropFirst($0.count) : nil }
    }

    private static func number(_ text: ArraySlice<UInt8>) -> Int32? {
        Int32(String(decoding: text.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
    }
}
