import ArgumentParser
import UbiquityControl

struct DownloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "download",
        abstract: "Download the content of items, and return when all of it is here.")

    @Argument(help: "Files and folders; a folder with everything below it.")
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
