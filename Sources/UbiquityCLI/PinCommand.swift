import ArgumentParser
import UbiquityControl

struct PinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Keep items on this device always, and download them.")

    @Argument(help: "Files and folders; a folder with everything below it.")
    var paths: [String]

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var bulk: BulkOptions

    func run() async throws {
        let action = ItemAction(
            route: ControlRoute.pin, doing: "pinning", done: "pinned", already: "already pinned")
        try await action.run(paths: paths, state, output, bulk)
    }
}
