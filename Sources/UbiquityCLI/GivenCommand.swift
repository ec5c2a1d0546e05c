import UbiquityCore
import UbiquitySystem

/// A command given by the user that `ubiquity` runs.
enum GivenCommand {
    /// Exit statuses for a missing program and for one that cannot be run, as in the shell and env(1).
    private static let notFound: Int32 = 127
    private static let notRunnable: Int32 = 126

    /// Runs the command in the foreground, on a thread of its own, and waits.
    /// - Returns: its exit status. If it cannot be run, the reason has been printed.
    static func run(_ command: [String]) async throws -> Int32 {
        let pool = BlockingPool(name: "command", threads: 1)
        return try await pool.run {
            do throws(Errno) {
                return try ForegroundProcess.run(command)
            } catch {
                Output.message(UbiquityError(error, doing: "run \(command[0])", at: "").description)
                return error == .ENOENT ? notFound : notRunnable
            }
        }
    }
}
