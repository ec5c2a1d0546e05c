import ArgumentParser
import UbiquityDaemon

extension ServiceUnit: ExpressibleByArgument {}

/// Internal: `scripts/documents` writes the reference pages from its output, and `scripts/package` the units.
struct ReferenceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reference",
        abstract: "Print the tables of the reference pages as JSON.",
        shouldDisplay: false)

    @Option(help: "A unit of systemd, for the package: print its text instead.")
    var unit: ServiceUnit?

    func run() throws {
        if let unit { return Output.page(unit.text(program: "/usr/bin/ubiquity")) }
        try Output.json(ReferenceTables())
    }
}
