import ArgumentParser
import Ubiquity
import UbiquityControl

struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Show the file and the level of a mount's log, or change the level.",
        discussion: """
            The level 'debug' logs each commit, each part of the change feed and each transfer. A change lasts until \
            the mount ends. UBIQUITY_LOG=debug in the environment of 'ubiquity mount' and 'ubiquity serve' sets the \
            level from the start.
            """)

    @Argument(help: "The mount point, or any path in it; not needed if there is one mount.")
    var mountPoint: String?

    @Option(help: "The lowest level that is written: trace, debug, info, notice, warning, error or critical.")
    var level: LogLevel?

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let location = try state.mount(of: mountPoint)
        let report: LogReport = try await Daemon.asking(location, "asking the daemon …") {
            try await $0.ask(ControlRoute.log, LogRequest(level: level?.rawValue))
        }
        if output.asJSON { return try Output.json(report) }
        Output.line("\(report.file ?? "standard error"): \(report.level)")
    }

    enum LogLevel: String, ExpressibleByArgument, CaseIterable {
        case trace, debug, info, notice, warning, error, critical
    }
}
