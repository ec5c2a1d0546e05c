import ArgumentParser
import UbiquityControl

struct DownloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "download",
        abstract: "Brings the content of items here and returns when it is here.")

    @Argument(help: "Files and folders; folders with all that is in them.")
    var paths: [String]

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var bulk: BulkOptions

    func run() async throws {
        let action = ItemAction(
            route: ControlRoute.download, doing: "downloading", done: "downloaded", already: "already here",
            downloads: true)
        try await action.run(paths: paths, state, output, bulk)
    }
}
