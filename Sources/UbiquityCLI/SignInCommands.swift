import ArgumentParser
import UbiquityCloudClient
import UbiquityCore
import UbiquityDaemon
import UbiquityWire

/// The cloud and the account that a decision about a code is for.
struct SignInSubject: ParsableArguments {
    @Option(
        name: .customLong("account"),
        help: .init("Only codes of this account of the cloud on this machine.", valueName: "name"))
    var name: String?

    @OptionGroup var data: AccountCommand.DataOption
    @OptionGroup var state: StateOptions

    func validate() throws {
        guard name == nil && data.folder == nil || state.folder == nil else {
            throw ValidationError("--account and --data are for a cloud on this machine, --state for a device")
        }
    }

    /// Asks the cloud of the device's account, then the cloud on this machine if the first one does not know the code.
    func ask<Answer: Sendable>(
        _ question: (CloudAdministrator, _ account: String?) async throws -> Answer
    ) async throws -> Answer {
        try await AccountCommand.asking {
            if name == nil, data.folder == nil, let device = try Accounts.signedIn(deviceFolder: state.resolved()) {
                do { return try await device.ask { try await question($0, nil) } } catch let error as UbiquityError {
                    guard error.code == .notFound, state.folder == nil, try data.accounts().isServing else {
                        throw error
                    }
                }
            }
            return try await data.accounts().ask { try await question($0, name) }
        }
    }
}

/// `ubiquity account approve`.
struct ApproveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "approve",
        abstract: "Confirm the code that 'ubiquity login --code' shows on another device.",
        discussion: """
            The device gets a token of its own, named after it. On the cloud's machine the command confirms codes of \
            all accounts. Elsewhere it confirms codes of the account that this device is signed in to. Compare the \
            name and the address of the device before you confirm.
            """)

    @Argument(help: "The code, for example BCDF-GHJK.")
    var code: String

    @Option(help: .init("A container that the device may use; repeat it for more (default: all).", valueName: "id"))
    var container: [String] = []

    @Flag(help: "The device may read, and change nothing.")
    var readOnly = false

    @OptionGroup var subject: SignInSubject
    @OptionGroup var output: OutputOptions

    func validate() throws {
        for name in container where ContainerID(name) == nil {
            throw ValidationError("--container \(Output.shown(name)): \(ContainerID.rules)")
        }
    }

    func run() async throws {
        let decision = SignInDecision(
            code: code, containers: container.isEmpty ? nil : container, readOnly: readOnly)
        let signIn = try await subject.ask { try await $0.approveSignIn(decision, of: $1) }
        if output.asJSON { return try Output.json(signIn) }
        Output.line("\(signIn.device) signs in to account \(signIn.account)")
    }
}

/// `ubiquity account refuse`.
struct RefuseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refuse", abstract: "Refuse a code: its device is not signed in.")

    @Argument(help: "The code, from 'ubiquity account pending'.")
    var code: String

    @OptionGroup var subject: SignInSubject
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let signIn = try await subject.ask { try await $0.refuseSignIn(code, of: $1) }
        if output.asJSON { return try Output.json(signIn) }
        Output.line("refused \(signIn.device)")
    }
}

/// `ubiquity account pending`.
struct PendingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pending", abstract: "List the codes that wait for a confirmation.",
        discussion: "The columns are the code, the account, the device, its address and the age of the code.")

    @OptionGroup var subject: SignInSubject
    @OptionGroup var output: OutputOptions

    func run() async throws {
        for signIn in try await subject.ask({ try await $0.pendingSignIns(of: $1) }) {
            if output.asJSON {
                try Output.json(signIn)
            } else {
                Output.line(
                    [
                        signIn.code, signIn.account.padded(12), signIn.device.padded(20),
                        signIn.address ?? "this machine", Output.ago(signIn.requested, now: Output.now()),
                    ].joined(separator: "  "))
            }
        }
    }
}
