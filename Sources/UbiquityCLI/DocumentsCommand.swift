import ArgumentParser
import UbiquityDaemon

/// Whether the device shows documents.
enum DocumentsSwitch: String, CaseIterable, ExpressibleByArgument {
    case on, off
}

struct DocumentsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "documents",
        abstract: "Turn the documents of this device on or off, without signing out.",
        discussion: """
            While documents are off, mounts of this device show an empty folder, programs get no identity token, and \
            nothing is transferred. Nothing is lost: 'ubiquity documents on' shows everything again.
            """)

    @OptionGroup var state: StateOptions

    @Argument(help: "on or off; without it, the command prints the setting.")
    var setting: DocumentsSwitch?

    func run() async throws {
        let stateFolder = try state.resolved()
        guard let setting else {
            let isOff = if case .off = try DeviceAccount.load(deviceFolder: stateFolder) { true } else { false }
            return Output.line(isOff ? "off" : "on")
        }
        guard try DeviceAccount.setDocuments(on: setting == .on, deviceFolder: stateFolder) else {
            return Output.message("documents are \(setting.rawValue) already")
        }
        try await state.showAccount()
        let notice = try AccountNotice(deviceFolder: stateFolder).text
        Output.message(setting == .on ? "documents are on: \(notice)" : notice)
    }
}
