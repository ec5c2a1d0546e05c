import ArgumentParser
import UbiquityDaemon

/// Internal: `scripts/documents` writes the reference pages from its output.
struct ReferenceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reference",
        abstract: "Print the tables of the reference pages as JSON.",
        shouldDisplay: false)

    func run() throws {
        try Output.json(ReferenceTables())
    }
}
