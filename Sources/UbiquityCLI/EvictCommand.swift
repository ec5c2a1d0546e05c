import ArgumentParser
import Ubiquity
import UbiquityControl

struct EvictCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict",
        abstract: "Remove the content of items from this device; the next open downloads it again.")

    @Argument(help: "Files and folders; a folder with everything below it. With --unused-for: all mounts by default.")
    var paths: [String] = []

    @Option(
        help: .init(
            "Only files that no program on this device has used for so long, such as 12h, 30d or 4w.",
            valueName: "time"))
    var unusedFor: String?

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var bulk: BulkOptions

    func validate() throws {
        guard !paths.isEmpty || unusedFor != nil else {
            throw ValidationError("name files or folders, or --unused-for")
        }
        if let unusedFor, TimeSpan.seconds(unusedFor) == nil {
            throw ValidationError("'\(unusedFor)' is not a length of time; write 12h, 30d or 4w")
        }
    }

    func run() async throws {
        let seconds = unusedFor.flatMap(TimeSpan.seconds)
        let action = ItemAction(
            route: ControlRoute.evict, doing: "evicting", done: "evicted", already: "already a placeholder",
            unusedFor: seconds)
        try await action.run(paths: try searched(), state, output, bulk)
    }

    private func searched() throws -> [String] {
        guard paths.isEmpty else { return paths }
        let mounts = try state.mounts().map { String(decoding: $0.mountPoint, as: UTF8.self) }
        guard !mounts.isEmpty else { throw MountUnreachable("nothing to evict", "no container is mounted") }
        return mounts
    }
}
