import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

struct CoordinateCommand: AsyncParsableCommand {
    enum Use: String, CaseIterable, ExpressibleByArgument {
        case read, write
    }

    static let configuration = CommandConfiguration(
        commandName: "coordinate",
        abstract: "Run a command under a claim on an item.",
        discussion: """
            Programs that present the item save it first. The command and its children may use the item; opens by \
            other programs wait until the command has ended. The exit code is the command's.
            """)

    @Option(help: .init("Give up after this many seconds, with exit code 1.", valueName: "s"))
    var timeout: Double?

    @Option(help: .init("for-deleting, for-moving, for-merging, without-changes, …", valueName: "option"))
    var option: [String] = []

    @Argument(help: "read: others may read too. write: nobody else may open the item.")
    var use: Use

    @Argument(help: "A file, a folder, or an unused name.")
    var path: String

    @Argument(parsing: .postTerminator, help: "The command, after --.")
    var command: [String]

    @OptionGroup var state: StateOptions

    func validate() throws {
        if command.isEmpty { throw ValidationError("name a command after --") }
        if let timeout, !(0...WaitCommand.longestTimeout).contains(timeout) {
            throw ValidationError("--timeout must be a number of seconds from 0 to \(Int(WaitCommand.longestTimeout))")
        }
        let known = use == .read ? ReadingOptions.names : WritingOption.allCases.map(\.rawValue)
        guard let unknown = option.first(where: { !known.contains($0) }) else { return }
        let names = known.joined(separator: ", ")
        throw ValidationError("--option of \(use) is one of \(names); not \"\(Output.shown(unknown))\"")
    }

    func run() async throws {
        let location = try state.locate(path)
        let folder = String(decoding: location.stateFolder, as: UTF8.self)
        let client = try await CoordinationClient.open(stateFolder: folder, name: "ubiquity coordinate")
        do {
            let status = try await run(location, client)
            await client.close()
            if status != 0 { throw ExitCode(status) }
        } catch {
            await client.close()
            throw error
        }
    }

    private func run(_ location: PathResolver.Location, _ client: CoordinationClient) async throws -> Int32 {
        let item = ClaimItem(
            path: String(decoding: location.relativePath, as: UTF8.self), use: use == .read ? .read : .write,
            options: option)
        let claim = try await Progress.showing("waiting for \(path) …") { _ in
            try await client.claim([item], seconds: timeout)
        }
        let status = try await GivenCommand.run(command)
        try await client.end(claim.claim)
        return status
    }
}
