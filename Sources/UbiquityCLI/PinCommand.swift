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

    func run() async throws {
        let action = ItemAction(route: ControlRoute.pin, doing: "pinning", done: "pinned")
        try await action.run(paths: paths, state, asJSON: output.asJSON)
    }
}
