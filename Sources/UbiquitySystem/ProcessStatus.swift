import Glibc

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
    var hasSignal: Bool { waitingSignals != 0 }

    /// Whether it is being killed: a signal that kills is SIGKILL to each thread.
    var isDying: Bool { mask("SigPnd:\t") & Self.set([SIGKILL]) != 0 }

    /// Whether one of them is to end what it does: it kills, or it is caught and asks for an end. Others leave a call
    /// that waits alone, as they do on a local disk: a timer's, a child's, a terminal's new size, a stop.
    var hasSignalToEnd: Bool {
        let caught = mask("SigCgt:\t")
        return waitingSignals & ~mask("SigIgn:\t") & (caught & Self.asking | ~caught & ~Self.harmless) != 0
    }

    /// The kernel's numbers: 32 is what the C library cancels a thread with.
    private static let asking = set([SIGHUP, SIGINT, SIGQUIT, SIGTERM, 32])
    /// Not caught, these end no process (signal(7)).
    private static let harmless = set([SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH])

    private static func set(_ signals: [Int32]) -> UInt64 { signals.reduce(0) { $0 | 1 << UInt64($1 - 1) } }

    /// Its own and its process's.
    private var waitingSignals: UInt64 { (mask("SigPnd:\t") | mask("ShdPnd:\t")) & ~mask("SigBlk:\t") }

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
