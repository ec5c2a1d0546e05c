import ArgumentParser
import UbiquityDaemon

struct LogoutCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logout",
        abstract: "Sign this device out. Its documents stay in its state folder.")

    @OptionGroup var state: StateOptions

    func run() async throws {
        guard try SignIn.remove(deviceFolder: state.resolved()) else {
            return Output.message("this device was not signed in")
        }
        Output.message(
            "signed out; uploaded changes are in the cloud, pending ones are kept here for the next login")
        Output.message("the next mount uses \(try AccountNotice(deviceFolder: state.resolved()).text)")
        try state.tellOfMounts()
    }
}
