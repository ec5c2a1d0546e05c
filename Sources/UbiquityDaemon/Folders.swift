import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The folders for a device's state: one for each device, below it one for each account and container.
package enum DeviceFolder {
    /// The account of a device that is not signed in.
    package static let localAccount = "local"

    /// `--state`, else `UBIQUITY_STATE`, else `$XDG_STATE_HOME/ubiquity`, else `~/.local/state/ubiquity`; resolved.
    package static func path(option: String?) throws(UbiquityError) -> String {
        if let chosen = try chosen(option: option) { return try AbsolutePath.resolved(chosen) }
        return try AbsolutePath.resolved(base("XDG_STATE_HOME", inHome: ".local/state") + "/ubiquity")
    }

    /// Whether no device has its state in the folder yet.
    package static func isNew(_ folder: String) -> Bool {
        !["device.json", "account.json"].contains { FileSystem.isFile(Path.join(folder, $0)) }
    }

    /// The state folder that the user named, absolute; nil if none is named.
    package static func chosen(option: String?) throws(UbiquityError) -> String? {
        guard let chosen = option ?? ProcessHost.variable("UBIQUITY_STATE") else { return nil }
        return try AbsolutePath.of(chosen)
    }

    /// One of the XDG base folders. By the specification a relative path in the variable is ignored.
    static func base(_ variable: String, inHome fallback: String) throws(UbiquityError) -> String {
        if let base = ProcessHost.variable(variable), base.hasPrefix("/") { return base }
        return try AbsolutePath.of(Path.join(ProcessHost.homeDirectory, fallback))
    }
}

/// The data folder of this user's embedded cloud.
package enum CloudFolder {
    /// `--data`, else `UBIQUITY_CLOUD_DATA`, else `$XDG_DATA_HOME/ubiquity/cloud`; resolved.
    package static func path(option: String?) throws(UbiquityError) -> String {
        if let chosen = option ?? ProcessHost.variable("UBIQUITY_CLOUD_DATA") {
            return try AbsolutePath.resolved(chosen)
        }
        return try AbsolutePath.resolved(DeviceFolder.base("XDG_DATA_HOME", inHome: ".local/share") + "/ubiquity/cloud")
    }

    static func socket(_ data: String) -> String { Path.join(data, "cloud.sock") }
    static func log(_ data: String) -> String { Path.join(data, "cloud.log") }
}

/// Paths that stay valid when the working directory changes.
package enum AbsolutePath {
    /// The absolute path, without slashes at its end; symlinks are kept.
    package static func of(_ path: String) throws(UbiquityError) -> String {
        guard !path.isEmpty else { throw UbiquityError(.invalid, "the path is empty") }
        var absolute = path
        if !path.hasPrefix("/") {
            let folder = try describing("find the working directory") { () throws(Errno) in
                try ProcessHost.workingDirectory()
            }
            absolute = Path.join(String(decoding: folder, as: UTF8.self), path)
        }
        while absolute.count > 1, absolute.hasSuffix("/") { absolute.removeLast() }
        return absolute
    }

    /// The same without symlinks, "." and "..", as far as the path exists. A daemon's paths must not lead through the
    /// folder on which it is going to mount.
    package static func resolved(_ path: String) throws(UbiquityError) -> String {
        var there = try of(path), rest = [Substring]()
        while true {
            do throws(Errno) {
                return rest.reversed().reduce(try FileSystem.realPath(there)) { Path.join($0, String($1)) }
            } catch {
                let name = there.split(separator: "/").last ?? ""
                guard error == .ENOENT, there != "/", name != "..", name != "." else {
                    throw UbiquityError(error, doing: "find the folder", at: path)
                }
                rest.append(name)
                there = Path.parent(of: there)
            }
        }
    }
}

/// The state of one container on one device: `<state>/<account>/<container>/`.
struct ContainerFolder: Hashable, Sendable {
    let account: AccountFolder
    let path: String

    init(account: AccountFolder, container: ContainerID) {
        self.account = account
        path = Path.join(account.path, container.name)
    }

    /// Creates it and marks its account. Throws `.notPermitted` if other users may change it.
    func make() throws(UbiquityError) {
        try requireTrusted()
        try account.claim()
        try describing("create the state folder", at: path) { () throws(Errno) in
            try FileSystem.makeDirectories(path)
            try FileSystem.syncPath(to: path)
        }
        // Another user may have created a part of it meanwhile.
        try requireTrusted()
    }

    /// The daemon keeps credentials in the state folder, and runs commands from it.
    private func requireTrusted() throws(UbiquityError) { try TrustedPath.require(path, as: "the state folder") }

    var index: String { Path.join(path, "index.db") }
    var content: String { Path.join(path, "content") }
    /// The versions that programs have added.
    var appVersions: String { Path.join(path, "versions") }
    /// The list of files whose sync is paused.
    var pausedItems: String { Path.join(path, "paused") }
    /// Contents of versions that programs are about to add.
    var incoming: String { Path.join(path, ControlRoute.incomingName) }
    var staging: String { Path.join(path, "staging") }
    var lock: String { Path.join(path, "lock") }
    var controlSocket: String { Path.join(path, ControlRoute.socketName) }
    var log: String { Path.join(path, "daemon.log") }

    /// An account's name as a folder name. Bytes other than letters, digits, "-", "_", "@" and "." (and a leading dot)
    /// are written as "%" and two digits.
    static func fileName(account: String) -> String {
        var name = ""
        for (position, byte) in account.utf8.enumerated() {
            let character = Unicode.Scalar(byte)
            let isPlain = byte < 128 && (character.properties.isAlphabetic || (48...57).contains(byte))
            if isPlain || "-_@".unicodeScalars.contains(character) || (character == "." && position > 0) {
                name.unicodeScalars.append(character)
            } else {
                name += "%" + Hex.encode([byte])
            }
        }
        return name
    }
}
