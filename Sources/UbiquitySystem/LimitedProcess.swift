import Glibc
import UbiquityCore

/// Runs a program to its end, within a time.
package enum LimitedProcess {
    package enum Outcome: Hashable, Sendable {
        case exited(Int32)
        /// By a signal.
        case killed(Int32)
        /// It took too long and was killed, with what it had started.
        case outOfTime
        /// Nobody waited for it any more, and it was killed likewise.
        case ended
    }

    /// How often it is asked whether somebody still waits.
    private static let interval = Duration.milliseconds(100)

    /// Runs a program in a session of its own, without input. Blocks.
    /// - Parameters:
    ///   - folder: its working directory.
    ///   - log: where its standard output and error go.
    ///   - isOver: whether nobody waits for it any more.
    package static func run(
        _ executable: String, _ arguments: [String], folder: String, log: FileDescriptor, atMost limit: Duration,
        unless isOver: () -> Bool
    ) throws(Errno) -> Outcome {
        let (process, end) = try start(executable, arguments, folder: folder, log: log)
        let cut = try wait(for: end, atMost: limit, unless: isOver)
        // All that is in its group; it leads one.
        if cut != nil { kill(-process, SIGKILL) }
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1 {
            guard Glibc.errno == EINTR else { throw .last }
        }
        let signal = status & 0x7f
        if signal == 0 { return .exited(status >> 8 & 0xff) }
        return cut ?? .killed(signal)
    }

    /// - Returns: why it is not waited for any longer; nil if it has ended.
    private static func wait(
        for end: FileDescriptor, atMost limit: Duration, unless isOver: () -> Bool
    ) throws(Errno) -> Outcome? {
        let latest = ContinuousClock.now + limit
        while true {
            let left = min(interval, latest - .now)
            guard left > .zero else { return .outOfTime }
            if try end.waitUntilReadable(milliseconds: Int32(left / .milliseconds(1)) + 1) { return nil }
            if isOver() { return .ended }
        }
    }

    /// - Returns: the process, and a descriptor that is readable when it and all it has started have ended: the other
    ///   end of the pipe is open in them and nowhere else.
    private static func start(
        _ executable: String, _ arguments: [String], folder: String, log: FileDescriptor
    ) throws(Errno) -> (Int32, FileDescriptor) {
        let pipe = try LocalPipe()
        let process = try DetachedProcess.spawn(
            executable, arguments, folder: folder, log: log, report: pipe.writing)
        return (process, pipe.reading)
    }
}
