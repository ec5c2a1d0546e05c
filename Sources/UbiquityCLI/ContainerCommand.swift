import ArgumentParser
import UbiquityCloudClient
import UbiquityCore
import UbiquityWire

/// `ubiquity container`.
struct ContainerCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "container",
        abstract: "Create and list the containers of an account.",
        discussion: "Without --account the commands are about the account that this device is signed in to.",
        subcommands: [Create.self, List.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a container, or change the display name of one.")

        @Argument(help: "The container's name.")
        var name: String

        @Option(help: .init("The name that people see; an empty one removes it.", valueName: "text"))
        var displayName: String?

        @OptionGroup var subject: AccountCommand.Subject

        func validate() throws {
            guard ContainerID(name) != nil else { throw ValidationError(ContainerID.rules) }
        }

        func run() async throws {
            guard let container = ContainerID(name) else { return }
            try await subject.ask {
                try await $0.setContainer(container, ContainerSettings(displayName: displayName), of: $1)
            }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the containers with their display names.")

        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func run() async throws {
            for container in try await subject.ask({ try await $0.containers(of: $1) }) {
                if output.asJSON {
                    try Output.json(container)
                } else {
                    Output.line(
                        [container.name.padded(20), container.displayName ?? ""].filter { !$0.isEmpty }
                            .joined(separator: "  "))
                }
            }
        }
    }
}
