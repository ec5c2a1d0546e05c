import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquityDaemon

/// The account before, whose documents are imported.
enum ImportSource: String, CaseIterable, ExpressibleByArgument {
    case local
}

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Bring the documents of the account before into the mounted container.",
        discussion: """
            'ubiquity login' keeps the documents of the embedded cloud on this machine, and no mount shows them. This \
            command moves them into the mount of the new account. An item whose name is taken gets a number. It is \
            deleted in the account before when the new cloud has confirmed it, and stays in the trash there. Earlier \
            versions and undecided conflicts stay with the account before. A command that was killed goes on where it \
            ended when it is repeated.
            """)

    @Option(help: "The account before; local: the account of the embedded cloud.")
    var from = ImportSource.local

    @Option(help: .init("The container of the account before.", valueName: "id"))
    var container = MountSettings.defaultContainer

    @Option(
        help: .init("A folder of the new container (default: the mount point of the only mount).", valueName: "dir"))
    var to: String?

    @Flag(help: "Copy the items: the account before keeps them.")
    var copy = false

    @Argument(help: "Paths in the container of the account before, relative to it; none: all.")
    var paths: [String] = []

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions
    @OptionGroup var quiet: QuietOptions

    func validate() throws {
        guard ContainerID(container) != nil else { throw ValidationError("--container: \(ContainerID.rules)") }
    }

    func run() async throws {
        let location = try state.mount(of: to)
        let mountPoint = String(decoding: location.mountPoint, as: UTF8.self)
        let stateFolder = String(decoding: location.stateFolder, as: UTF8.self)
        // Throws if the mount shows another account than the present one.
        _ = try Accounts.ofMount(stateFolder: stateFolder)
        guard let container = ContainerID(container) else { return }
        let relative = String(decoding: location.relativePath, as: UTF8.self)
        let target = relative.isEmpty ? mountPoint : mountPoint + "/" + relative
        let source = try AccountImport.fromEmbeddedCloud(
            deviceFolder: Accounts.deviceFolder(ofMount: stateFolder), container: container, to: target,
            keepsOriginals: copy)
        let report = try await Progress.showing("importing …", unless: quiet.isQuiet) { progress in
            try await Daemon.connected(to: stateFolder) { daemon in
                try await source.run(paths) { placed in
                    progress.update("waiting for the cloud …")
                    let inside = placed.map { String($0.dropFirst(mountPoint.count + 1)) }
                    let report = try await daemon.wait(WaitRequest(paths: inside, uploaded: true))
                    guard report.done else {
                        throw UbiquityError(
                            .offline, "the new cloud has not confirmed the items: \(report.reason ?? "unknown reason")",
                            remedy: "repeat the command; it goes on where it ended")
                    }
                } progress: { count in
                    progress.update("importing … \(Output.count(count, "item"))")
                }
            }
        }
        try show(report)
    }

    private func show(_ report: AccountImport.Report) throws {
        if output.asJSON { try Output.json(report) } else {
            let verb = copy ? "copied" : "imported"
            Output.line("\(verb) \(Output.count(report.imported, "item"))")
        }
        guard !report.skipped.isEmpty else { return }
        for item in report.skipped { Output.message("\(item.path) stays in the account before: \(item.reason)") }
        throw ExitCode(ExitStatus.failed)
    }
}
