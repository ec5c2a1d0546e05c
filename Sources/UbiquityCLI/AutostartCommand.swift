import ArgumentParser
import Ubiquity
import UbiquityCore
import UbiquityDaemon
import UbiquitySystem

/// `ubiquity autostart`.
struct AutostartCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "autostart",
        abstract: "Mount the container whenever you sign in to this machine.",
        discussion: """
            A unit of your systemd mounts the container, and mounts it again within two seconds if its daemon is \
            killed. 'systemctl --user status ubiquity' shows the state. A machine without a desktop, where you are \
            seldom signed in, needs 'loginctl enable-linger' too.
            """,
        subcommands: [On.self, Off.self, Show.self], defaultSubcommand: Show.self)

    struct Place: ParsableArguments {
        @Argument(help: "The folder to mount on (default: ~/Ubiquity).")
        var mountPoint: String?

        func path(_ autostart: Autostart) throws -> String {
            try mountPoint.map { try AbsolutePath.of($0) } ?? autostart.usualMountPoint
        }
    }

    struct On: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Mount at each sign-in, and now.")

        @OptionGroup var place: Place

        func run() async throws {
            let autostart = Autostart.ofUser()
            let mountPoint = try place.path(autostart)
            let name = try autostart.enable(mountPoint)
            let isMounted = try MountFinder.table().containers.contains { $0.mountPoint == Array(mountPoint.utf8) }
            guard !isMounted else {
                return Output.message("on: \(name) mounts \(mountPoint) at the next sign-in; it is mounted now")
            }
            let pool = BlockingPool(name: "systemctl", threads: 1)
            let hasStarted = try await Progress.showing("starting \(name) …") { _ in
                try await pool.run { try autostart.start(name) }
            }
            Output.message(
                hasStarted
                    ? "on: \(name) has mounted \(mountPoint)"
                    : "on: \(name) mounts \(mountPoint) at the next sign-in. It did not start now: see "
                        + "'systemctl --user status \(name)'")
        }
    }

    struct Off: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Do not mount at sign-in any more.",
            discussion: "A mount in use stays; 'ubiquity unmount' ends it.")

        @OptionGroup var place: Place

        func run() throws {
            let autostart = Autostart.ofUser()
            let mountPoint = try place.path(autostart)
            let wasOn = try autostart.disable(mountPoint)
            Output.message(wasOn ? "off: \(mountPoint) is not mounted at sign-in" : "off already: \(mountPoint)")
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "List the units that mount at sign-in.")

        @OptionGroup var output: OutputOptions

        private struct Entry: Encodable {
            var unit: String
        }

        func run() throws {
            let units = try Autostart.ofUser().enabled()
            for unit in units {
                if output.asJSON { try Output.json(Entry(unit: unit)) } else { Output.line(unit) }
            }
            if units.isEmpty, !output.asJSON { Output.message("off: no container is mounted at sign-in") }
        }
    }
}
