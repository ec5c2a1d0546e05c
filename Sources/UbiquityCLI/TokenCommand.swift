import ArgumentParser
import UbiquityCloudClient
import UbiquityCore
import UbiquityWire

/// `ubiquity account token`.
struct TokenCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Create, list and revoke the tokens of an account.",
        discussion: """
            Each device and each app can have a token of its own, for some containers or for reading only. Without \
            --account the commands are about the account that this device is signed in to; its token needs all rights.
            """,
        subcommands: [Create.self, List.self, Revoke.self])

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a token and print it. It is shown only once.")

        @OptionGroup var subject: AccountCommand.Subject

        @Option(help: .init("A name for the token (default: 'token' and a number).", valueName: "text"))
        var name: String?

        @Option(
            help: .init("A container that the token may use; repeat it for more (default: all).", valueName: "id"))
        var container: [String] = []

        @Flag(help: "The token may read, and change nothing.")
        var readOnly = false

        @OptionGroup var output: OutputOptions

        func validate() throws {
            for name in container where ContainerID(name) == nil {
                throw ValidationError("--container \(Output.shown(name)): \(ContainerID.rules)")
            }
        }

        func run() async throws {
            let request = TokenRequest(
                name: name, containers: container.isEmpty ? nil : container, readOnly: readOnly)
            let token = try await subject.ask { try await $0.createToken(request, of: $1) }
            if output.asJSON { try Output.json(token) } else { Output.line(token.token) }
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the tokens of an account.",
            discussion: "The columns are the name, the containers, the rights, the last use and the devices.")

        @OptionGroup var subject: AccountCommand.Subject
        @OptionGroup var output: OutputOptions

        func run() async throws {
            for token in try await subject.ask({ try await $0.tokens(of: $1) }) {
                if output.asJSON { try Output.json(token) } else { Output.line(Self.text(of: token)) }
            }
        }

        private static func text(of token: TokenEntry) -> String {
            let containers = token.containers?.joined(separator: ",") ?? "all containers"
            let used = token.lastUsed.map { "used \(Output.ago($0, now: Output.now()))" } ?? "never used"
            let devices = token.devices.map(Output.shown).joined(separator: ", ")
            return [
                Output.shown(token.name).padded(20), containers, token.readOnly ? "read only" : "read and write", used,
                devices,
            ].filter { !$0.isEmpty }.joined(separator: "  ")
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Revoke a token. Its devices are cut off at once, and keep what they have.")

        @Argument(help: "The token's name, from 'ubiquity account token list'.")
        var name: String

        @OptionGroup var subject: AccountCommand.Subject

        func run() async throws { try await subject.ask { try await $0.revokeToken(name, of: $1) } }
    }
}
