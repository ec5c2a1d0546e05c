import ArgumentParser
import UbiquityControl

struct UnpinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin",
        abstract: "Lets items be evicted again.")

    @Argument(help: "Files and folders; folders with all that is in them.")
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
