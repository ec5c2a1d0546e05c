import ArgumentParser
import Ubiquity

struct OnlineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "online",
        abstract: "End the offline mode; pending transfers resume.")

    @Argument(help: "The mount point, or any path in it; not needed in the mount or if there is one mount.")
    var mountPoint: String?

    @OptionGroup var state: StateOptions

    func run() async throws {
        let location = try state.mount(of: mountPoint)
        try await Daemon.asking(location, "going online …") { try await $0.setOffline(false) }
    }
}
