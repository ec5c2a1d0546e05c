import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct DeletionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "deletions",
        abstract: "Decides about deletions that are held because they are many.",
        discussion: """
            When more than half of all items, and more than 100, are deleted on this device within a minute, no other \
            device hears of it before it is confirmed here. Items that this device made within the last hour, and that \
            no other device changed, do not count. 'ubiquity status' and 'ubiquity monitor' show held deletions. A \
            mount with --allow-mass-delete holds none.
            """,
        subcommands: [Confirm.self, Undo.self])

    struct Confirm: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "confirm", abstract: "Sends them: the items go to the trash, on all devices.")
        @OptionGroup var place: Place
        func run() async throws { try await place.decide(.confirm, "deletions confirmed") }
    }

    struct Undo: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "undo", abstract: "Brings the items back, as placeholders.")
        @OptionGroup var place: Place
        func run() async throws { try await place.decide(.undo, "items brought back") }
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
