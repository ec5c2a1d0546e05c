import ArgumentParser

/// Kills processes, cuts the power, and searches for lost data; see `scripts/kill-test`.
@main
struct KillTest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kill-test", abstract: "Kill devices and clouds, cut the power, and look for what is lost.",
        subcommands: [RunCommand.self, PowerCommand.self, WorkerCommand.self])
}
