import ArgumentParser
import UbiquityControl

struct UnpinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin",
        abstract: "Allow items to be evicted again.")

    @Argument(help: "Files and folders; a folder with everything below it.")
    var paths: [String]

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var bulk: BulkOptions

    func run() async throws {
        let action = ItemAction(
            route: ControlRoute.unpin, doing: "unpinning", done: "unpinned", already: "already not pinned")
        try await action.run(paths: paths, state, output, bulk)
    }
}
