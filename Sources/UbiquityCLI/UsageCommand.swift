import ArgumentParser
import Ubiquity
import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquityWire

/// `ubiquity usage`.
struct UsageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "usage",
        abstract: "Show what an account takes on the cloud's disk, and delete the items of a container.",
        discussion: """
            Without a subcommand it shows the usage by container and document: 'ubiquity usage [PATH]'.
            """,
        subcommands: [Show.self, Delete.self, Restore.self], defaultSubcommand: Show.self)

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show what an account takes on the cloud's disk, by container and document.",
            discussion: """
                The columns are live contents, earlier versions and the trash. A content that several versions have \
                counts once. Documents are the items in a container's folder Documents; all else is one sum. Without \
                --account and without a path the command is about the account that this device is signed in to.
                """)

        @Argument(help: "A path in a mount: show its container only.")
        var path: String?

        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard path == nil || subject.name == nil else { throw ValidationError("a path excludes --account") }
        }

        func run() async throws {
            var usage: AccountUsage
            if let path {
                let location = try subject.state.locate(path)
                let (accounts, container) = try Accounts.ofMount(
                    stateFolder: String(decoding: location.stateFolder, as: UTF8.self))
                usage = try await AccountCommand.asking { try await accounts.ask { try await $0.usage(of: nil) } }
                usage.containers.removeAll { $0.name != container.name }
            } else {
                usage = try await subject.ask { try await $0.usage(of: $1) }
            }
            if output.asJSON { return try Output.json(usage) }
            for line in Self.lines(of: usage) { Output.line(line) }
        }

        private static func lines(of usage: AccountUsage) -> [String] {
            var lines = [
                "account \(Output.shown(usage.account)): \(ByteSize.text(usage.counted)) of "
                    + "\(ByteSize.text(usage.quota)) used, \(ByteSize.text(usage.total)) on the cloud's disk",
                row("", "live", "versions", "trash"), row("all containers", usage.bytes),
            ]
            for container in usage.containers {
                let name = container.displayName.map { "\($0) (\(container.name))" } ?? container.name
                lines.append(row(Output.shown(name), container.bytes))
                for document in container.documents ?? [] {
                    lines.append(row("  Documents/\(Output.shown(document.name))", document.bytes))
                }
                if container.documents?.isEmpty == false { lines.append(row("  documents and data", container.others)) }
            }
            lines.append("names and attributes: \(ByteSize.text(usage.database))")
            if usage.unused > 0 { lines.append("unused contents: \(ByteSize.text(usage.unused))") }
            return lines
        }

        private static func row(_ name: String, _ sums: UsageSums) -> String {
            row(name, ByteSize.text(sums.live), ByteSize.text(sums.earlierVersions), ByteSize.text(sums.trash))
        }

        private static func row(_ name: String, _ live: String, _ versions: String, _ trash: String) -> String {
            [name.padded(32), live.padded(12), versions.padded(12), trash].joined(separator: " ")
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete all items of a container, on all devices.",
            discussion: """
                'ubiquity usage restore' brings them back while the cloud keeps deleted items: 30 days, or the value \
                of 'ubiquity serve --keep'. An interrupted deletion is repeated, and goes on where it ended.
                """)

        @Argument(help: "The container.", transform: UsageCommand.container) var container: ContainerID
        @OptionGroup var confirmation: Confirmation
        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func run() async throws {
            try confirmation.require("delete all items of container \(container) on all devices")
            let deleted = try await subject.ask { try await $0.deleteItems(of: container, of: $1) }
            if output.asJSON { return try Output.json(deleted) }
            let days = Int((deleted.restorableSeconds / 86_400).rounded(.down))
            Output.line(
                "deleted \(Output.count(deleted.items, "item")); 'ubiquity usage restore \(container)' brings them "
                    + "back for \(Output.count(days, "day"))")
            guard deleted.kept > 0 else { return }
            Output.message("\(Output.count(deleted.kept, "item")) stay: a device changed them meanwhile")
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Restore the items of a container that 'ubiquity usage delete' deleted.")

        @Argument(help: "The container.", transform: UsageCommand.container) var container: ContainerID
        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let restored = try await subject.ask { try await $0.restoreItems(of: container, of: $1) }
            if output.asJSON { return try Output.json(restored) }
            Output.line("restored \(Output.count(restored.items, "item"))")
        }
    }

    private static func container(_ text: String) throws -> ContainerID {
        guard let container = ContainerID(text) else { throw ValidationError(ContainerID.rules) }
        return container
    }
}
