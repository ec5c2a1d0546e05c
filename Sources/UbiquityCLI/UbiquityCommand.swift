import ArgumentParser
import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquitySystem

/// `ubiquity`: chooses the subcommand and turns its outcome into an exit code.
@main
struct UbiquityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ubiquity",
        abstract: "A folder with all your documents, on every machine, without the disk space for them.",
        version: ProgramVersion.text,
        subcommands: [
            MountCommand.self, UnmountCommand.self, ServeCommand.self, AccountCommand.self, DeviceCommand.self,
            ContainerCommand.self, UsageCommand.self, LoginCommand.self, LogoutCommand.self, DocumentsCommand.self,
            ImportCommand.self,
            StatusCommand.self, ListCommand.self, MonitorCommand.self, WaitCommand.self,
            DownloadCommand.self, EvictCommand.self, PinCommand.self, UnpinCommand.self, OfflineCommand.self,
            OnlineCommand.self, KeyValueCommand.self,
            VersionsCommand.self, ResolveCommand.self, RestoreCommand.self, TrashCommand.self,
            PublishCommand.self, DeletionsCommand.self, LogCommand.self, DoctorCommand.self, CoordinateCommand.self,
            RunCommand.self, AutostartCommand.self, ReferenceCommand.self,
        ])

    static func main() async {
        ProcessHost.ignoreBrokenPipes()
        ProcessHost.setName("ubiquity")
        // Internal: the daemon starts itself with this argument.
        let arguments = Array(ProcessHost.arguments.dropFirst())
        if arguments.first == MountServer.replayArgument {
            ProcessHost.exit(MountServer.replay(Array(arguments.dropFirst())))
        }
        if MountHelper.names.contains(Path.name(of: ProcessHost.arguments.first ?? "")) {
            await MountHelper.run(arguments)
        }
        do {
            // Other bytes would be replaced in the decoded argument, and name another file.
            if let argument = ProcessHost.argumentThatIsNotUTF8 {
                throw ValidationError("not UTF-8: \(Output.shown(argument))")
            }
            try suggestCommand(for: arguments.first)
            var command = try parseAsRoot(arguments)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
            NewConflicts.show()
        } catch {
            ExitStatus.end(with: error)
        }
    }

    /// Throws `WrongUsage` with the nearest command if the first word is not a command.
    private static func suggestCommand(for word: String?) throws {
        guard let word, !word.hasPrefix("-"), word != "help" else { return }
        let names = configuration.subcommands.compactMap { $0.configuration.commandName }
        guard !names.contains(word) else { return }
        let shown = configuration.subcommands.filter { $0.configuration.shouldDisplay }
            .compactMap { $0.configuration.commandName }
        let suggestion = CommandSuggestion.nearest(to: word, among: shown).map { "did you mean 'ubiquity \($0)'?" }
        throw WrongUsage(
            cause: UbiquityError(
                .invalid, "no command '\(word)'", remedy: suggestion ?? "'ubiquity --help' lists the commands"))
    }
}
