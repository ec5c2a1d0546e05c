import ArgumentParser
import Ubiquity
import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquityWire

/// `ubiquity trash empty` and `ubiquity trash delete`.
enum TrashPurge {
    struct Empty: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "empty",
            abstract: "Remove all deleted items for ever, with all their versions.",
            discussion: TrashPurge.discussion)

        @Argument(help: "The mount point, or any path in it; not needed if there is one mount.")
        var mountPoint: String?

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let location = try state.mount(of: mountPoint)
            let paths = ShownPaths(mountPoint: location.mountPoint)
            try confirmation.require("remove all deleted items of \(paths.text("")) for ever")
            try await TrashPurge.run(location, output) { try await $0.emptyTrash(of: $1, of: nil) }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "delete",
            abstract: "Remove a deleted item for ever, with all its versions; a folder with all that is in it.",
            discussion: TrashPurge.discussion)

        @Option(help: .init("The mount, if an id is given and there are several.", valueName: "mountpoint"))
        var mount: String?

        @Argument(help: "The path that the item had, or its id from 'ubiquity trash list'.")
        var item: String

        @OptionGroup var confirmation: Confirmation
        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let given = ItemID(hex: item)
            let location = given == nil ? try state.locate(item) : try state.mount(of: mount)
            let found: ItemID
            if let given { found = given } else { found = try await Self.find(item, location) }
            try confirmation.require("remove the deleted item \(item) for ever, with all its versions")
            try await TrashPurge.run(location, output) { try await $0.purge(found, in: $1, of: nil) }
        }

        private static let longestSearch = 10_000

        /// The deleted item that had a path.
        private static func find(_ path: String, _ location: PathResolver.Location) async throws -> ItemID {
            let report: TrashReport = try await Daemon.askingCloud(location, "asking the cloud …") {
                try await $0.ask(ControlRoute.trash, TrashRequest(folder: nil, limit: longestSearch))
            }
            let found = report.items.filter { $0.path == location.path }
            guard let item = found.first.flatMap({ ItemID(hex: $0.id) }) else {
                throw UbiquityError(
                    .notFound, "no deleted item had this path", at: path,
                    remedy: "'ubiquity trash list' lists the ids; with --in those of a deleted folder's items")
            }
            guard found.count == 1 else {
                throw UbiquityError(
                    .invalid, "\(found.count) deleted items had this path", at: path,
                    remedy: "give the id of one, from 'ubiquity trash list'")
            }
            return item
        }
    }

    static let discussion = """
        It cannot be undone. The cloud removes the names and the versions at once, and the contents that no other item \
        has with its next collection, within six hours or so. A device removes its own copy when it is evicted.
        """

    static func run(
        _ location: PathResolver.Location, _ output: OutputOptions,
        _ question: (CloudAdministrator, ContainerID) async throws -> PurgedItems
    ) async throws {
        let (accounts, container) = try Accounts.ofMount(
            stateFolder: String(decoding: location.stateFolder, as: UTF8.self))
        let purged = try await AccountCommand.asking {
            try await accounts.ask { try await question($0, container) }
        }
        if output.asJSON { return try Output.json(purged) }
        Output.line(
            "removed \(Output.count(purged.items, "item")) and \(Output.count(purged.versions, "version")) for ever")
    }
}
