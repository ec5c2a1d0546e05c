import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// `ubiquity publish`.
struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Make, list and revoke links to files and folders.",
        discussion: """
            Anybody with a link can download the item with a web browser. A link shows one state: later changes are \
            not in it. It has the names, the sizes and the times, and no attributes, no earlier versions and no \
            account name. A folder arrives as a zip archive.
            """,
        subcommands: [Create.self, List.self, Revoke.self], defaultSubcommand: Create.self)

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Publish an item and print its link. The link is shown only once.",
            discussion: """
                The command waits until the item is uploaded. 'create' may be omitted: 'ubiquity publish PATH'. The \
                link ends when it expires, when it is revoked, and when the item is deleted.
                """)

        @Argument(help: "The file or folder.")
        var path: String

        @Option(
            help: .init(
                "How long the link lasts: a number and s, m, h, d or w (default: 7d, at most 366d).",
                valueName: "time"))
        var expires: LinkLifetime?

        @Option(
            help: .init("A file with a password that visitors must enter; - reads standard input.", valueName: "f"))
        var passwordFile: String?

        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let location = try state.locate(path)
            let request = PublishRequest(
                path: location.path, lifetime: expires?.seconds, password: try passwordFile.map(Self.password))
            let report: PublishReport = try await Daemon.askingCloud(location, "publishing …") {
                try await $0.ask(ControlRoute.publish, request)
            }
            if output.asJSON { return try Output.json(report) }
            Output.line(report.url)
            Output.message("expires \(TerminalStyle.time(report.link.expiresAt))")
            if !report.isReachable {
                Output.message(
                    "the embedded cloud serves this machine only; sign in to a server ('ubiquity login') to share it")
            }
        }

        private static let longestPassword = 1024

        private static func password(_ file: String) throws -> String {
            let bytes: [UInt8]?
            if file == "-" {
                bytes = try describing("read the password") { () throws(Errno) in
                    try StandardStreams.readLine(limit: longestPassword + 1)
                }
            } else {
                bytes = try SmallFile.read(file, limit: longestPassword + 1)
            }
            guard let bytes else { throw UbiquityError(.notFound, "no such file", at: file) }
            let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
            guard let password = String(validating: line, as: UTF8.self), !password.isEmpty else {
                throw UbiquityError(.invalid, "there is no password", at: file)
            }
            return password
        }
    }

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list",
            abstract: "List the links in force, the newest first.",
            discussion: """
                The columns are the number, the time of the expiry, the downloads and the path. Without a path all \
                links of the container are listed. A file that is called 'list' is './list'.
                """)

        @Argument(help: "The item, or the mount point; not needed if there is one mount.")
        var path: String?

        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let location = try state.mount(of: path)
            let report: PublishedReport = try await Daemon.askingCloud(location, "asking the cloud …") {
                try await $0.ask(ControlRoute.published, PublishedRequest(path: location.path))
            }
            let paths = ShownPaths(mountPoint: location.mountPoint)
            for link in report.links {
                if output.asJSON { try Output.json(link) } else { Output.line(Self.text(of: link, paths)) }
            }
        }

        private static func text(of link: LinkReport, _ paths: ShownPaths) -> String {
            let path = link.path.map(paths.text) ?? link.name
            return [
                link.id.padded(6), "expires \(TerminalStyle.time(link.expiresAt))",
                Output.count(link.downloads, "download"), Output.shown(path), link.hasPassword ? "(password)" : "",
            ].filter { !$0.isEmpty }.joined(separator: "  ")
        }
    }

    struct Revoke: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "revoke",
            abstract: "Revoke a link. Downloads in progress end.")

        @Option(help: .init("The mount, if there are several.", valueName: "mountpoint"))
        var mount: String?

        @Argument(help: "The link, or its number from 'ubiquity publish list'.")
        var link: String

        @OptionGroup var state: StateOptions
        @OptionGroup var output: OutputOptions

        func run() async throws {
            let location = try state.mount(of: mount)
            let answer: Acknowledgement = try await Daemon.askingCloud(location, "asking the cloud …") {
                try await $0.ask(ControlRoute.unpublish, UnpublishRequest(link: link))
            }
            if output.asJSON { try Output.json(answer) } else { Output.line("revoked") }
        }
    }
}

/// "90m", "7d".
struct LinkLifetime: ExpressibleByArgument {
    let seconds: Double

    init?(argument: String) {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
        guard let unit = argument.last.flatMap({ units[$0] }), let count = Double(argument.dropLast()), count > 0,
            count.isFinite
        else { return nil }
        seconds = count * unit
    }
}
