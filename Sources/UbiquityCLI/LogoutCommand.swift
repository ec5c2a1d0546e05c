import ArgumentParser
import UbiquityDaemon

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Sign this device out. Its documents stay in its state folder.",
        discussion: """
            Mounts of this device show an empty folder at once, and nothing is transferred any more. Changes that were \
            not uploaded are safe. They are uploaded after the next login to the account.
            """)

    @OptionGroup var state: StateOptions

    func run() async throws {
        let stateFolder = try state.resolved()
        guard try SignIn.end(deviceFolder: stateFolder) != nil else {
            let absence = try DeviceAccount.load(deviceFolder: stateFolder).absence(deviceFolder: stateFolder)
            return Output.message(absence ?? "this device was not signed in")
        }
        // The mounts first: closing the account's documents records their last changes.
        try await state.showAccount()
        Output.message(try AccountNotice(deviceFolder: stateFolder).text)
    }
}
