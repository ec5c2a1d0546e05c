import ArgumentParser
import Ubiquity

struct OfflineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "offline",
        abstract: "Stop all transfers until 'ubiquity online' or the next mount.")

    @Argument(help: "The mount point, or any path in it; not needed in the mount or if there is one mount.")
    var mountPoint: String?

    @OptionGroup var state: StateOptions

    func run() async throws {
        let location = try state.mount(of: mountPoint)
        try await Daemon.asking(location, "going offline …") { try await $0.setOffline(true) }
    }
}
