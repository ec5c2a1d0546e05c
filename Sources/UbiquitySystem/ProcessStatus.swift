import Glibc

/// The state of a process or thread at the time of the call (`/proc/N/status`, proc_pid_status(5)).
struct ProcessStatus {
    /// About 1500 bytes, more with many groups.
    private static let limit = 65_536

    private let text: [UInt8]

    /// Nil if it has ended, or may not be examined.
    init?(_ thread: Int32) {
        guard thread > 0, let text = (try? SmallFile.read("/proc/\(thread)/status", limit: Self.limit)).flatMap({ $0 })
        else { return nil }
        self.text = text
    }

    /// Whether it has ended and was not waited for yet.
    var isZombie: Bool {
        guard let state = value(of: "State:\t")?.first else { return false }
        return state == "Z" || state == "X"
    }

    /// The process of the thread.
    var leader: Int32? { value(of: "Tgid:\t").flatMap { Int32($0, radix: 10) } }
    var parent: Int32? { value(of: "PPid:\t").flatMap { Int32($0, radix: 10) } }

    /// Whether a signal is pending that it does not block.
    var hasSignal: Bool { waitingSignals != 0 }

    /// Whether it is being killed: the kernel sends SIGKILL to each thread of a killed process.
    var isDying: Bool { mask("SigPnd:\t") & Self.set([SIGKILL]) != 0 }

    /// Whether a pending signal should end the current call: it kills the process, or is caught and asks for an end.
    /// Other signals leave a blocked call alone, as on a local disk: a timer, a child, a terminal's new size, a stop.
    var hasSignalToEnd: Bool {
        let caught = mask("SigCgt:\t")
        return waitingSignals & ~mask("SigIgn:\t") & (caught & Self.asking | ~caught & ~Self.harmless) != 0
    }

    /// The kernel's numbers; the C library uses 32 to cancel a thread.
    private static let asking = set([SIGHUP, SIGINT, SIGQUIT, SIGTERM, 32])
    /// Uncaught, these do not end a process (signal(7)).
    private static let harmless = set([SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH])

    private static func set(_ signals: [Int32]) -> UInt64 { signals.reduce(0) { $0 | 1 << UInt64($1 - 1) } }

    /// Signals pending for the thread or its process.
    private var waitingSignals: UInt64 { (mask("SigPnd:\t") | mask("ShdPnd:\t")) & ~mask("SigBlk:\t") }

    private func mask(_ label: StaticString) -> UInt64 { value(of: label).flatMap { UInt64($0, radix: 16) } ?? 0 }

    /// Returns the text after the label. It compares bytes up to the label's line, because this runs during opens.
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
