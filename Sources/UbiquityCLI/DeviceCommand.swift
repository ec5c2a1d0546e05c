import ArgumentParser
import UbiquityCloudClient
import UbiquityWire

/// `ubiquity device`.
struct DeviceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "device",
        abstract: "List and remove the devices of an account.",
        discussion: """
            Without --account the commands are about the account that this device is signed in to; its token needs all \
            rights.
            """,
        subcommands: [List.self, Remove.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the devices with their last contact and their tokens.")

        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func run() async throws {
            for device in try await subject.ask({ try await $0.devices(of: $1) }) {
                if output.asJSON { try Output.json(device) } else { Output.line(Self.text(of: device)) }
            }
        }

        private static func text(of device: DeviceEntry) -> String {
            let contact = "last contact \(Output.ago(device.lastContact, now: Output.now()))"
            let tokens = device.tokens.map(Output.shown).joined(separator: ", ")
            return [Output.shown(device.name).padded(20), contact, tokens]
                .filter { !$0.isEmpty }.joined(separator: "  ")
        }
    }

    struct Remove: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a device: the tokens that it has used are revoked at once.",
            discussion: """
                The device keeps what it has downloaded. Other devices that used one of these tokens are cut off too; \
                the command names them.
                """)

        @Argument(help: "The device's name, or its id from 'ubiquity device list --json'.")
        var device: String

        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let removed = try await subject.ask { try await $0.removeDevice(device, of: $1) }
            if output.asJSON { return try Output.json(removed) }
            let tokens = removed.revokedTokens.map(Output.shown).joined(separator: ", ")
            Output.line(
                "removed \(Output.shown(removed.name))" + (tokens.isEmpty ? "" : "; revoked tokens: \(tokens)"))
            guard !removed.otherDevices.isEmpty else { return }
            let others = removed.otherDevices.map(Output.shown).joined(separator: ", ")
            Output.message("these devices used the same tokens and must sign in again: \(others)")
        }
    }
}
