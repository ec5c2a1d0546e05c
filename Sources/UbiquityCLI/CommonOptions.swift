import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquitySystem

/// Selects the device on this machine.
struct StateOptions: ParsableArguments {
    @Option(
        name: .customLong("state"),
        help: .init(
            "Folder of this device's state; two folders are two devices. [UBIQUITY_STATE]",
            valueName: "dir"))
    var folder: String?

    /// The folder, absolute. Throws `.notPermitted` if another user may change it: it holds tokens, and commands would
    /// write there with this user's rights.
    func resolved() throws -> String {
        let path = try DeviceFolder.path(option: folder)
        try TrustedPath.require(path, as: "the state folder")
        return path
    }
}

/// For commands that find the mount by a path, or use the only mount.
extension StateOptions {
    /// All mounts; if a state folder is chosen, only those of that device.
    func mounts() throws -> [MountTable.Entry] {
        let mounts = try MountFinder.table().containers
        guard let device = try DeviceFolder.chosen(option: folder) else {
            // Mounts of other users cannot be asked.
            return mounts.filter { !MountFinder.isForbidden(stateFolder: $0.source) }
        }
        return mounts.filter { Self.isState($0.source, of: device) }
    }

    /// Whether the command works on a state folder without a mount: `--state` is given, or the environment names a
    /// device without mounts.
    func isUnmounted() throws -> Bool {
        if folder != nil { return true }
        return try DeviceFolder.chosen(option: nil) != nil && mounts().isEmpty
    }

    /// The mount that contains a path. Throws `MountUnreachable` if there is none, or if `--state` names another
    /// device. A path overrides the environment.
    func locate(_ path: String, by resolver: PathResolver? = nil) throws -> PathResolver.Location {
        let location = try MountFinder.locate(path, by: resolver)
        if let device = try folder.map({ try AbsolutePath.of($0) }), !Self.isState(location.stateFolder, of: device) {
            throw MountUnreachable(path, "not in a mount of the device in \(device)")
        }
        return location
    }

    /// The same. Without a path: the mount that contains the working directory, or the only mount.
    func mount(of path: String?) throws -> PathResolver.Location {
        if let path { return try locate(path) }
        if let here = try mountHere() { return here }
        let mounts = try mounts()
        guard let only = mounts.first else { throw MountUnreachable("nothing to ask", "no container is mounted") }
        guard mounts.count == 1 else {
            throw WrongUsage(
                cause: UbiquityError(.invalid, "several containers are mounted", remedy: "name the mount point of one"))
        }
        return PathResolver.Location(mountPoint: only.mountPoint, stateFolder: only.source, relativePath: [])
    }

    /// The mount that contains the working directory; nil if there is none, or if `--state` names another device.
    func mountHere() throws -> PathResolver.Location? {
        guard var here = try MountFinder.find(".") else { return nil }
        if let device = try folder.map({ try AbsolutePath.of($0) }), !Self.isState(here.stateFolder, of: device) {
            return nil
        }
        here.relativePath = []
        return here
    }

    /// Makes the device's mounts show its account now, and tells the user what each of them shows.
    func showAccount() async throws {
        let device = try resolved()
        for mount in try MountFinder.table().containers where Self.isState(mount.source, of: device) {
            let place = Output.shown(String(decoding: mount.mountPoint, as: UTF8.self))
            do {
                let connection = try DaemonConnection(stateFolder: String(decoding: mount.source, as: UTF8.self))
                let report: AccountReport
                do {
                    report = try await connection.ask(
                        ControlRoute.account, AccountRequest(), within: Self.accountLimit)
                } catch {
                    await connection.close()
                    throw error
                }
                await connection.close()
                Output.message(
                    "\(place) shows \(report.absence == nil ? "account \(report.account)" : "an empty folder")")
            } catch {
                Output.message("\(place) does not show the account yet: \(error)")
            }
        }
    }

    /// Seconds until a mount must show another account. It waits for requests in progress at the cloud.
    private static let accountLimit: Int64 = 30

    /// Whether a container's state is in the device's folder, however the paths are written.
    private static func isState(_ state: [UInt8], of device: String) -> Bool {
        guard let state = try? FileSystem.realPath(String(decoding: state, as: UTF8.self)),
            let device = try? FileSystem.realPath(device)
        else { return false }
        return state.hasPrefix(device + "/")
    }
}

/// How results are printed.
struct OutputOptions: ParsableArguments {
    @Flag(name: .customLong("json"), help: "Print JSON, one object a line.")
    var asJSON = false
}

/// Whether messages other than warnings and errors are left out.
struct QuietOptions: ParsableArguments {
    @Flag(name: [.customShort("q"), .customLong("quiet")], help: "Print warnings and errors only.")
    var isQuiet = false
}
