import ArgumentParser
import UbiquityControl

struct EvictCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict",
        abstract: "Remove the content of items from this device; the next open downloads it again.")

    @Argument(help: "Files and folders; a folder with everything below it.")
    var paths: [String]

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var bulk: BulkOptions

    func run() async throws {
        let action = ItemAction(
            route: ControlRoute.evict, doing: "evicting", done: "evicted", already: "already a placeholder")
        try await action.run(paths: paths, state, output, bulk)
    }
}
