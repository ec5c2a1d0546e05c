import ArgumentParser
import UbiquityControl
import UbiquityCore
import UbiquityDaemon

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: "Manage the accounts of a cloud on this machine.",
        subcommands: [Create.self, List.self, Delete.self])

    struct DataOption: ParsableArguments {
        @Option(name: .customLong("data"), help: .init("The cloud's data folder.", valueName: "dir"))
        var folder: String?

        func accounts() throws -> Accounts { Accounts(data: try CloudFolder.path(option: folder)) }
    }

    /// An unreachable cloud has an exit code of its own.
    static func asking<Answer>(_ question: () async throws -> Answer) async throws -> Answer {
        do {
            return try await Progress.showing("asking the cloud …") { _ in try await question() }
        } catch let error as UbiquityError where error.isAboutCloud {
            throw CloudUnreachable(cause: error)
        }
    }

    struct Created: Codable {
        var account: String
        var token: String
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create an account and print its token. The token is shown only once.")

        @Argument(help: "The name of the account.") var name: String
        @OptionGroup var data: DataOption
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let token = try await asking { try await data.accounts().create(name) }
            if output.asJSON { try Output.json(Created(account: name, token: token)) } else { Output.line(token) }
        }
    }

    struct Listed: Codable { var account: String }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the accounts.")

        @OptionGroup var data: DataOption
        @OptionGroup var output: OutputOptions

        func run() async throws {
            for name in try await asking({ try await data.accounts().list() }) {
                if output.asJSON { try Output.json(Listed(account: name)) } else { Output.line(name) }
            }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete an account with all its documents. This cannot be undone.")

        @Argument(help: "The name of the account.") var name: String
        @OptionGroup var data: DataOption

        func run() async throws { try await asking { try await data.accounts().delete(name) } }
    }
}
