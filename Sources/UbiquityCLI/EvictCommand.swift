import ArgumentParser
import UbiquityControl

struct EvictCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict",
        abstract: "Frees the disk space of items that the cloud has; the next open downloads them again.")

    @Argument(help: "Files and folders; folders with all that is in them.")
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
