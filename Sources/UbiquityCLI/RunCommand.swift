import ArgumentParser
import UbiquitySystem

struct RunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run a command that downloads nothing.",
        discussion: """
            A read of a placeholder by the command or its children fails at once with EDEADLK ("Resource deadlock \
            avoided"). Thumbnailers, indexers, virus scanners and backups get this error in any case: see \
            no-materialize in ~/.config/ubiquity/config. The exit code is the command's.
            """)

    @Flag(help: "Download nothing.")
    var noMaterialize = false

    @Argument(parsing: .postTerminator, help: "The command, after --.")
    var command: [String]

    func validate() throws {
        if command.isEmpty { throw ValidationError("name a command after --") }
        if !noMaterialize { throw ValidationError("--no-materialize is required: there is no other mode") }
    }

    func run() async throws {
        // This process stays and carries the mark, as the ancestor of all processes that the command starts. The mark
        // is found here even if a program drops its environment, and before the program has begun.
        let mark = ProcessMark.downloadsNothing
        if !mark.isOnHere {
            try describing("start anew") { () throws(Errno) in try ForegroundProcess.restart(with: mark.variable, "1") }
        }
        let status = try await GivenCommand.run(command)
        if status != 0 { throw ExitCode(status) }
    }
}
