import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct TrashCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trash",
        abstract: "List, restore and purge deleted items.",
        subcommands: [List.self, Restore.self, TrashPurge.Empty.self, TrashPurge.Delete.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List deleted items, the latest first.",
            discussion: "A deleted folder is one entry; --in lists what is in it.")

        @Option(help: .init("List the items of this deleted folder.", valueName: "id"))
        var `in`: String?

        @Option(help: .init("The most items to list.", valueName: "n"))
        var limit = 1000

        @Argument(help: "The mount point, or any path in it; not needed if there is one mount.")
        var mountPoint: String?

        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be 1 or more") }
        }

        func run() async throws {
            let location = try state.mount(of: mountPoint)
            let report: TrashReport = try await Daemon.askingCloud(location, "asking the cloud …") {
                try await $0.ask(ControlRoute.trash, TrashRequest(folder: `in`, limit: limit))
            }
            let paths = ShownPaths(mountPoint: location.mountPoint)
            for item in report.items {
                if output.asJSON { try Output.json(item) } else { Output.line(Self.text(of: item, paths)) }
            }
            if report.hasMore { Output.message("there are more items; --limit lists them") }
        }

        private static func text(of item: TrashEntry, _ paths: ShownPaths) -> String {
            let time = TerminalStyle.time(item.deletedAt)
            let size = item.kind == "file" ? ByteSize.text(item.size) : item.kind
            let parts = [item.id, time, size.padded(10), Output.shown(paths.text(item.path))]
            guard let conflicts = item.conflicts, conflicts > 0 else { return parts.joined(separator: "  ") }
            return (parts + ["(\(Output.count(conflicts, "conflict version")))"]).joined(separator: "  ")
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "restore",
            abstract: "Restore a deleted item; a folder with the items that were deleted with it.",
            discussion: """
                For a folder that exists it restores the items that were deleted last in it, together. This helps \
                where an edit on another device has restored the folder, but not all of its items.
                """)

        @Option(help: .init("A new path in the same mount.", valueName: "newpath"))
        var to: String?

        @Option(help: .init("The mount, if an id is given and there are several.", valueName: "mountpoint"))
        var mount: String?

        @Argument(help: "The path that the item had, or its id from 'ubiquity trash list'.")
        var item: String

        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let isID = Hex.decode(item)?.count == 16
            let location = try isID ? state.mount(of: mount ?? to) : state.locate(item)
            let wanted = isID ? item : location.path
            let target = try to.map { try location.sameMount($0) }
            let report: TrashRestoreReport = try await Daemon.askingCloud(location, "restoring …") {
                try await $0.ask(ControlRoute.trashRestore, TrashRestoreRequest(item: wanted, to: target))
            }
            if output.asJSON { return try Output.json(report) }
            let path = report.path.map(ShownPaths(mountPoint: location.mountPoint).text)
            Output.line("restored \(Output.shown(path ?? item)) (\(Output.count(report.items, "item")))")
        }
    }
}
