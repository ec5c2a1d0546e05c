import ArgumentParser

/// Kills processes, cuts the power, and searches for lost data; see `scripts/kill-test`.
@main
struct KillTest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kill-test", abstract: "Kill devices and clouds, cut the power, and check for lost data.",
        subcommands: [RunCommand.self, PowerCommand.self, WorkerCommand.self])
}
