import UbiquityCore
import UbiquityDaemon
import UbiquitySystem

/// The mounts that begin when the user signs in, as units of the user's systemd.
struct Autostart {
    /// Folders of the user's own units, and of the package's.
    let own: String
    let packaged: String
    /// The path of `ubiquity` in units of its own.
    let program: String
    /// The user's home.
    let home: String

    private static let wanted = "default.target.wants"

    /// Those of this user.
    static func ofUser() -> Autostart {
        let home = ProcessHost.homeDirectory
        let configuration = ProcessHost.variable("XDG_CONFIG_HOME") ?? home + "/.config"
        let program = (try? FileSystem.readLink(ProcessHost.executable)).map { String(decoding: $0, as: UTF8.self) }
        return Autostart(
            own: configuration + "/systemd/user", packaged: "/usr/lib/systemd/user",
            program: program ?? "/usr/bin/ubiquity", home: home)
    }

    /// The mount point that needs no name.
    var usualMountPoint: String { home + "/Ubiquity" }

    /// The unit of a mount point.
    func name(of mountPoint: String) -> String {
        guard mountPoint != usualMountPoint else { return ServiceUnit.mount.rawValue }
        return "ubiquity@\(ServiceUnit.escaped(mountPoint)).service"
    }

    /// Enables the mount. Writes the unit if no package installed it.
    /// - Returns: the unit's name.
    func enable(_ mountPoint: String) throws(UbiquityError) -> String {
        let name = name(of: mountPoint)
        let unit = mountPoint == usualMountPoint ? ServiceUnit.mount : .mountOnFolder
        var file = "\(packaged)/\(unit.rawValue)"
        try describing("make the folder for units", at: own) { () throws(Errno) in
            try FileSystem.makeDirectories("\(own)/\(Self.wanted)")
        }
        if try !exists(file) {
            file = "\(own)/\(unit.rawValue)"
            try SmallFile.publish(Array(unit.text(program: program).utf8), at: file, mode: 0o644)
        }
        let link = "\(own)/\(Self.wanted)/\(name)"
        try describing("enable the unit", at: link) { () throws(Errno) in
            do throws(Errno) { try FileSystem.unlink(link) } catch .ENOENT {}
            try FileSystem.symlink(file, at: link)
        }
        return name
    }

    /// Disables the mount. A mount in use continues.
    /// - Returns: false if it was not enabled.
    func disable(_ mountPoint: String) throws(UbiquityError) -> Bool {
        let link = "\(own)/\(Self.wanted)/\(name(of: mountPoint))"
        return try describing("disable the unit", at: link) { () throws(Errno) in
            do throws(Errno) { try FileSystem.unlink(link) } catch .ENOENT { return false }
            return true
        }
    }

    /// The enabled units, by name.
    func enabled() throws(UbiquityError) -> [String] {
        let folder = "\(own)/\(Self.wanted)"
        let entries = try describing("read the enabled units", at: folder) { () throws(Errno) in
            do throws(Errno) { return try FileSystem.entries(of: folder) } catch .ENOENT { return [] }
        }
        return entries.map { String(decoding: $0.name, as: UTF8.self) }
            .filter { $0 == ServiceUnit.mount.rawValue || $0.hasPrefix("ubiquity@") && $0.hasSuffix(".service") }
            .sorted()
    }

    /// The time that systemd has to start a mount. A mount is usable in a second, or fails within 60.
    private static let startLimit = Duration.seconds(75)

    /// Asks the user's systemd to start a unit now. Blocks.
    /// - Returns: whether it runs. Without a running systemd it starts at the next sign-in.
    func start(_ name: String) throws(UbiquityError) -> Bool {
        let outcome = try describing("run systemctl") { () throws(Errno) in
            try LimitedProcess.run(
                script: "systemctl --user daemon-reload && systemctl --user start -- \"$1\"", [name], folder: "/",
                log: FileDescriptor.open("/dev/null", .writeOnly), atMost: Self.startLimit, unless: { false })
        }
        return outcome == .exited(0)
    }

    private func exists(_ file: String) throws(UbiquityError) -> Bool {
        try describing("find the unit", at: file) { () throws(Errno) in try FileSystem.exists(file) }
    }
}
