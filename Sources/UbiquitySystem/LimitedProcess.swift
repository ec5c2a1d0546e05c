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
    }

    /// Runs a program in a session of its own, without input. Blocks.
    /// - Parameters:
    ///   - folder: its working directory.
    ///   - log: where its standard output and error go.
    package static func run(
        _ executable: String, _ arguments: [String], folder: String, log: FileDescriptor, atMost limit: Duration
    ) throws(Errno) -> Outcome {
        let (process, end) = try start(executable, arguments, folder: folder, log: log)
        let hasEnded = try end.waitUntilReadable(milliseconds: Int32(clamping: Int64(limit / .milliseconds(1))))
        // All that is in its group; it leads one.
        if !hasEnded { kill(-process, SIGKILL) }
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1 {
            guard Glibc.errno == EINTR else { throw .last }
        }
        let signal = status & 0x7f
        if signal == 0 { return .exited(status >> 8 & 0xff) }
        return hasEnded ? .killed(signal) : .outOfTime
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
