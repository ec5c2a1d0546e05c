import ArgumentParser
import Ubiquity
import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquitySystem
import UbiquityWire

extension MountSettings.Policy: ExpressibleByArgument {}

/// Whether plain opens of programs exclude each other.
enum CoordinationMode: String, CaseIterable, ExpressibleByArgument {
    case posix, strict
}

struct MountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount",
        abstract: "Mount a container, and return when it is usable.",
        discussion: """
            A device that is not signed in uses the embedded cloud of this machine. The mount starts that cloud if it \
            does not run. All devices of this user share it.
            """)

    @OptionGroup var state: StateOptions

    @Option(help: .init("The container; the first use creates it.", valueName: "id"))
    var container = MountSettings.defaultContainer

    @Option(help: "all: each container of the account is a folder in the mount point, with its display name.")
    var containers: ContainerChoice?

    @Option(help: .init("The name of this device (default: the host name).", valueName: "name"))
    var device: String?

    @Option(help: "lazy: download content on open; eager: download all content while the disk has space.")
    var policy = MountSettings.Policy.lazy

    @Option(help: .init("The most content on this device, e.g. 10G.", valueName: "size"), transform: Self.size)
    var cacheLimit: Int64?

    @Option(
        help: .init(
            "Free space that stays on the disk (default: 1G, at most a twentieth of the disk).", valueName: "size"),
        transform: Self.size)
    var diskFloor: Int64?

    @Option(help: "posix: programs do not exclude each other; strict: opening waits for other programs' writers.")
    var coordination = CoordinationMode.posix

    @Flag(help: "Do not let the kernel serve files past the daemon.")
    var noPassthrough = false

    @Flag(
        name: .customLong("enable-io-uring"),
        help: "Turn on io_uring for all FUSE file systems of this machine (root only).")
    var enableRings = false

    @Flag(help: "Never put a mass deletion on hold.")
    var allowMassDelete = false

    @Flag(help: "Accept set-user-id and set-group-id bits that other devices set.")
    var trustSuid = false

    @Flag(help: "Show each losing version of a conflict beside its document, as \"name (conflict of device).ext\".")
    var visibleConflicts = false

    @Flag(help: "Stay in the foreground, and write the log to standard error.")
    var foreground = false

    @OptionGroup var quiet: QuietOptions

    @Flag(help: .hidden)
    var report = false

    @Option(name: .customShort("o"), help: .init("Options of mount(8), e.g. allow_other,ro.", valueName: "opt,…"))
    var options: [String] = []

    @Argument(help: "An empty folder.")
    var mountPoint: String

    func validate() throws {
        if ContainerID(container) == nil {
            throw ValidationError("--container takes \(ContainerID.rules); not \"\(Output.shown(container))\"")
        }
        guard containers == nil || container == MountSettings.defaultContainer && !foreground else {
            throw ValidationError("--containers excludes --container and --foreground")
        }
        guard let device else { return }
        let limit = MountSettings.maximumDeviceNameLength
        guard !device.isEmpty, device.utf8.count <= limit, Output.shown(device) == device else {
            throw ValidationError("--device must be a name of 1 to \(limit) bytes without control characters")
        }
    }

    private static func size(_ text: String) throws -> Int64 { try ByteSize.parse(text) }

    func run() async throws {
        let settings = try settings()
        let path = try UserConfiguration.path()
        Output.messages(try UserConfiguration.load().complaints.map { Output.shown("\(path), \($0); it is ignored") })
        guard !foreground else { return try await MountServer.run(settings, reporting: report) }
        let isNew = try DeviceFolder.chosen(option: state.folder) != nil
            && DeviceFolder.isNew(settings.deviceFolder)
        if containers != nil { return try await mountAll(settings, isNew: isNew) }
        let notices = try await Progress.showing("mounting …", unless: quiet.isQuiet) { progress in
            // Launching blocks, and the progress line needs a thread meanwhile.
            let pool = BlockingPool(name: "mount", threads: 1)
            return try await pool.run {
                try MountLauncher.launch(settings) { count in
                    if count > 0 { progress.update("mounting … \(Output.count(Int(count), "item")) listed") }
                }
            }
        }
        Output.messages(notices)
        guard !quiet.isQuiet else { return }
        try tell("mounted container \(settings.container) on \(settings.mountPoint)", settings, isNew: isNew)
    }

    /// One line: the mount point, the account and the cloud. A state folder that the user named and that is empty may
    /// be mistyped.
    private func tell(_ mounted: String, _ settings: MountSettings, isNew: Bool) throws {
        let account = try AccountNotice(deviceFolder: settings.deviceFolder).text
        let new = isNew ? "; \(settings.deviceFolder) is a new device: nothing here yet" : ""
        Output.message("\(mounted): \(account)\(new)")
    }

    private func mountAll(_ settings: MountSettings, isNew: Bool) async throws {
        let (notices, count) = try await Progress.showing("mounting …", unless: quiet.isQuiet) { progress in
            let listed = try await AccountCommand.asking {
                try await Accounts(deviceFolder: settings.deviceFolder).startingCloud().ask {
                    try await $0.containers(of: nil)
                }
            }
            // An account without a container gets its first one.
            let entries = listed.isEmpty ? [ContainerEntry(name: MountSettings.defaultContainer)] : listed
            let mount = ContainersMount(settings: settings), pool = BlockingPool(name: "mount", threads: 1)
            return try await pool.run { try mount.run(entries) { progress.update($0) } }
        }
        Output.messages(notices)
        guard !quiet.isQuiet else { return }
        try tell("mounted \(Output.count(count, "container")) in \(settings.mountPoint)", settings, isNew: isNew)
    }

    /// A container whose state is in another container would sooner or later wait for itself.
    private func stateFolder() throws -> String {
        let folder = try state.resolved()
        guard let container = try MountFinder.find(folder) else { return folder }
        let mountPoint = String(decoding: container.mountPoint, as: UTF8.self)
        throw UbiquityError(
            .invalid, "the state folder is in a container, which is mounted on \(mountPoint)", at: folder,
            remedy: "name a folder of a local disk")
    }

    private func settings() throws -> MountSettings {
        let folder = try stateFolder()
        // A daemon gets checked limits, or defaults.
        if !report {
            let limits = try SizeLimits(stateFolder: folder)
            do throws(UbiquityError) { try limits.require(cacheLimit: cacheLimit, diskFloor: diskFloor) } catch {
                throw WrongUsage(cause: error)
            }
        }
        return try MountSettings(
            deviceFolder: folder, container: container, deviceName: device, policy: policy,
            cacheLimit: cacheLimit, diskFloor: diskFloor, allowsPassthrough: !noPassthrough,
            enablesRings: enableRings, allowsMassDelete: allowMassDelete, trustsPrivileges: trustSuid,
            showsConflicts: visibleConflicts, isStrict: coordination == .strict,
            options: options.flatMap { $0.split(separator: ",").map(String.init) },
            mountPoint: AbsolutePath.of(mountPoint))
    }
}
