import CUbiquityShims
import Glibc
import UbiquityCore

/// Runs a shell script to its end, within a time limit.
package enum LimitedProcess {
    package enum Outcome: Hashable, Sendable {
        case exited(Int32)
        /// Killed by a signal.
        case killed(Int32)
        /// Killed because it exceeded the time limit.
        case outOfTime
        /// Killed because nobody waits for it any more.
        case ended
    }

    /// How often `isOver` is called.
    private static let interval = Duration.milliseconds(100)

    /// Starts a watcher beside the script that kills it when this process dies: nothing would limit its time then. The
    /// watcher reads from a pipe whose writing end only this process has.
    private static let watch = """
        (read -r line <&\(DetachedProcess.reportDescriptor); kill -9 0) &
        exec /bin/sh -c "$@" \(DetachedProcess.reportDescriptor)<&-
        """

    /// Runs a script in its own session, without input. When it ends, all processes it left running are killed. Blocks.
    ///
    /// - Parameters:
    ///   - arguments: `$1` and the following.
    ///   - folder: The working directory.
    ///   - log: The target of standard output and error.
    ///   - isOver: Returns whether nobody waits for it any more.
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

    /// Kills its process group.
    ///
    /// - Returns: The status, as from waitpid(2).
    private static func end(_ process: Int32) -> Int32 {
        kill(-process, SIGKILL)
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1, Glibc.errno == EINTR {}
        return status
    }

    /// - Returns: The reason to stop waiting; nil if the process has ended.
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
