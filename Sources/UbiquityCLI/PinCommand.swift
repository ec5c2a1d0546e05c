import ArgumentParser
import UbiquityControl

struct PinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Keeps items on this device always, whatever the policy; downloads what is not here.")

    @Argument(help: "Files and folders; folders with all that is in them.")
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
