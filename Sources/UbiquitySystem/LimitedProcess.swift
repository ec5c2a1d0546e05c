import CUbiquityShims
import Glibc
import UbiquityCore

/// Runs a shell's script to its end, within a time.
package enum LimitedProcess {
    package enum Outcome: Hashable, Sendable {
        case exited(Int32)
        /// By a signal.
        case killed(Int32)
        /// It took too long and was killed.
        case outOfTime
        /// Nobody waited for it any more, and it was killed likewise.
        case ended
    }

    /// How often it is asked whether somebody still waits.
    private static let interval = Duration.milliseconds(100)

    /// Has a process beside the script that ends it when this process has died: nobody limits its time then, nor wants
    /// what it does. It reads from a pipe that is open for writing here and nowhere else.
    private static let watch = """
        (read -r line <&\(DetachedProcess.reportDescriptor); kill -9 0) &
        exec /bin/sh -c "$@" \(DetachedProcess.reportDescriptor)<&-
        """

    /// Runs a script in a session of its own, without input. What it has started and left running is killed with its
    /// end, whatever that was. Blocks.
    /// - Parameters:
    ///   - arguments: `$1` and the following.
    ///   - folder: its working directory.
    ///   - log: where its standard output and error go.
    ///   - isOver: whether nobody waits for it any more.
    package static func run(
        script: String, _ arguments: [String] = [], folder: String, log: FileDescriptor, atMost limit: Duration,
        unless isOver: () -> Bool
    ) throws(Errno) -> Outcome {
        let pipe = try LocalPipe()
        let process = try DetachedProcess.spawn(
            "/bin/sh", ["sh", "-c", watch, "sh", script, "sh"] + arguments, folder: folder, log: log,
            report: pipe.reading)
        let cut: Outcome?
        do throws(Errno) {
            let end = FileDescriptor(owning: try check(CUbiquity_processDescriptor(process)))
            cut = try wait(for: end, atMost: limit, unless: isOver)
        } catch {
            _ = end(process)
            throw error
        }
        let status = end(process)
        let signal = status & 0x7f
        if let cut, signal == SIGKILL { return cut }
        return signal == 0 ? .exited(status >> 8 & 0xff) : .killed(signal)
    }

    /// Kills all that is in its group, which it leads.
    /// - Returns: its status, as of waitpid(2).
    private static func end(_ process: Int32) -> Int32 {
        kill(-process, SIGKILL)
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1, Glibc.errno == EINTR {}
        return status
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
}
