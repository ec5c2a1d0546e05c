/// What the kernel tells of a process or thread, as of when it was asked (`/proc/N/status`, proc_pid_status(5)).
struct ProcessStatus {
    /// About 1500 bytes, more with many groups.
    private static let limit = 65_536

    private let text: [UInt8]

    /// Nil for one that has ended, or of which nothing may be known.
    init?(_ thread: Int32) {
        guard thread > 0, let text = (try? SmallFile.read("/proc/\(thread)/status", limit: Self.limit)).flatMap({ $0 })
        else { return nil }
        self.text = text
    }

    /// Whether it has ended and is not yet waited for.
    var isZombie: Bool {
        guard let state = value(of: "State:\t")?.first else { return false }
        return state == "Z" || state == "X"
    }

    /// The process that the thread is of.
    var leader: Int32? { value(of: "Tgid:\t").flatMap { Int32($0, radix: 10) } }
    var parent: Int32? { value(of: "PPid:\t").flatMap { Int32($0, radix: 10) } }

    /// Whether a signal waits for it that it does not block.
    var hasSignal: Bool {
        let signals = (mask("SigPnd:\t") | mask("ShdPnd:\t")) & ~mask("SigBlk:\t")
        return signals != 0
    }

    private func mask(_ label: StaticString) -> UInt64 { value(of: label).flatMap { UInt64($0, radix: 16) } ?? 0 }

    /// What follows the label. By bytes, and no further than the line: this is on the way of opens.
    private func value(of label: StaticString) -> String? {
        var rest = text[...]
        while !rest.isEmpty {
            let line = rest.prefix { $0 != UInt8(ascii: "\n") }
            if label.withUTF8Buffer({ line.starts(with: $0) }) {
                return String(decoding: line.dropFirst(label.utf8CodeUnitCount), as: UTF8.self)
            }
            rest = rest[line.endIndex...].dropFirst()
        }
        return nil
    }
}
