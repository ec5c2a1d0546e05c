import ArgumentParser
import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityDaemon

struct AccountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "account",
        abstract: "Manage the accounts of a cloud on this machine.",
        subcommands: [
            Create.self, List.self, Set.self, Delete.self, TokenCommand.self, ApproveCommand.self, RefuseCommand.self,
            PendingCommand.self,
        ])

    struct DataOption: ParsableArguments {
        @Option(name: .customLong("data"), help: .init("The cloud's data folder.", valueName: "dir"))
        var folder: String?

        func accounts() throws -> Accounts { Accounts(data: try CloudFolder.path(option: folder)) }
    }

    /// The account that a command is about: one of the cloud on this machine, or that of this device.
    struct Subject: ParsableArguments {
        @Option(
            name: .customLong("account"),
            help: .init(
                "An account of the cloud on this machine (default: the account of this device).", valueName: "name"))
        var name: String?

        @OptionGroup var data: DataOption
        @OptionGroup var state: StateOptions

        func validate() throws {
            guard name == nil || state.folder == nil else {
                throw ValidationError("--account is for a cloud on this machine, --state for a device: give one")
            }
            guard name != nil || data.folder == nil else { throw ValidationError("--data needs --account") }
        }

        /// Asks the cloud of the account.
        func ask<Answer: Sendable>(
            _ question: (CloudAdministrator, _ account: String?) async throws -> Answer
        ) async throws -> Answer {
            let accounts = name == nil ? try Accounts(deviceFolder: state.resolved()) : try data.accounts()
            return try await asking { try await accounts.ask { try await question($0, name) } }
        }
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

        @Option(
            help: .init("The account's quota, e.g. 50G (default: that of all accounts).", valueName: "size"),
            transform: { try ByteSize.parse($0) })
        var quota: Int64?

        @OptionGroup var data: DataOption
        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard quota ?? 1 > 0 else { throw ValidationError("--quota must be 1 byte or more: nothing fits in 0") }
        }

        func run() async throws {
            let token = try await asking {
                try await data.accounts().ask { try await $0.createAccount(name, quota: quota) }
            }
            if output.asJSON { try Output.json(Created(account: name, token: token)) } else { Output.line(token) }
        }
    }

    struct Listed: Codable { var account: String }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the accounts.")

        @OptionGroup var data: DataOption
        @OptionGroup var output: OutputOptions

        func run() async throws {
            for name in try await asking({ try await data.accounts().ask { try await $0.accounts() } }) {
                if output.asJSON { try Output.json(Listed(account: name)) } else { Output.line(name) }
            }
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Change the quota of an account.",
            discussion: """
                An account that has more than its new quota keeps everything; only more is refused. The quota of all \
                accounts, from 'ubiquity serve --quota' or the configuration, does not change an account with a quota \
                of its own.
                """)

        @Argument(help: "The name of the account.") var name: String

        @Option(
            help: .init("The account's own quota, e.g. 50G; 'standard' for that of all accounts.", valueName: "size"))
        var quota: String

        @OptionGroup var data: DataOption

        private func bytes() throws -> Int64? { quota == "standard" ? nil : try ByteSize.parse(quota) }

        func validate() throws {
            do { guard try bytes() ?? 1 > 0 else { throw ValidationError("--quota must be 1 byte or more") } } catch
                let error as UbiquityError
            {
                throw ValidationError("--quota: \(error)")
            }
        }

        func run() async throws {
            let bytes = try bytes()
            try await asking { try await data.accounts().ask { try await $0.setQuota(bytes, of: name) } }
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete an account with all its documents. This cannot be undone.")

        @Argument(help: "The name of the account.") var name: String
        @OptionGroup var confirmation: Confirmation
        @OptionGroup var data: DataOption

        func run() async throws {
            try confirmation.require("delete account \(name) with all its documents, for ever")
            try await asking { try await data.accounts().ask { try await $0.deleteAccount(name) } }
        }
    }
}
