import ArgumentParser
import Ubiquity
import UbiquityControl

struct LogCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Shows where a mount's log is and how much it says, or changes that while it runs.",
        discussion: """
            At 'debug' each commit, each part of the change feed and each transfer has its line. It stays so until the \
            mount ends; UBIQUITY_LOG=debug in the environment of 'ubiquity mount' and 'ubiquity serve' sets it from \
            the start.
            """)

    @Argument(help: "The mount point, or any path in it; not needed if there is one mount.")
    var mountPoint: String?

    @Option(help: "The least important that is written: trace, debug, info, notice, warning, error or critical.")
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
