import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct DeletionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deletions",
        abstract: "Decide about a mass deletion that is on hold.",
        discussion: """
            A mass deletion removes more than half of all items, and more than 100, within a minute. It stays on \
            hold on this device until you confirm or undo it. Items that this device made within the last hour, and \
            that no other device changed, do not count. 'ubiquity status' and 'ubiquity monitor' show deletions on \
            hold. A mount with --allow-mass-delete puts none on hold.
            """,
        subcommands: [Confirm.self, Undo.self])

    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "confirm", abstract: "Send the deletions: the items move to the trash on all devices.")
        @OptionGroup var place: Place
        func run() async throws { try await place.decide(.confirm, "deletions confirmed") }
    }

    struct Undo: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "undo", abstract: "Undo the deletions: the items return as placeholders.")
        @OptionGroup var place: Place
        func run() async throws { try await place.decide(.undo, "items restored") }
    }

    struct Place: ParsableArguments {
        @Argument(help: "The mount point, or any path in it; not needed if there is one mount.")
        var mountPoint: String?

        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func decide(_ decision: DeletionsRequest.Decision, _ what: String) async throws {
            let location = try state.mount(of: mountPoint)
            let report: DeletionsReport = try await Daemon.asking(location, "waiting …") {
                try await $0.ask(ControlRoute.deletions, DeletionsRequest(decision: decision))
            }
            if output.asJSON { try Output.json(report) } else { Output.line("\(report.items) \(what)") }
        }
    }
}
