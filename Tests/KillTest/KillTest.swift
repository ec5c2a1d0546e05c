import ArgumentParser

/// Kills what runs and cuts the power, and looks for what is lost; see `scripts/kill-test`.
@main
struct KillTest: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kill-test", abstract: "Kill devices and clouds, cut the power, and look for what is lost.",
        subcommands: [RunCommand.self, PowerCommand.self, WorkerCommand.self])
}
