import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

struct VersionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "versions",
        abstract: "List the versions of a file: the current one, conflicts, earlier ones.",
        discussion: "Conflicts and earlier versions are also files in '.versions/FILE/' beside the file.")

    @Argument(help: "The file or package.")
    var path: String

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let location = try state.locate(path)
        var report: VersionsReport = try await Daemon.asking(location, "asking for versions …") {
            try await $0.ask(ControlRoute.versions, PathsRequest(paths: [location.path]))
        }
        report.path = path
        if output.asJSON { return try Output.json(report) }
        for version in report.versions { Output.line(Self.text(of: version)) }
        if let reason = report.incomplete { Output.message("earlier versions are not listed: \(reason)") }
    }

    /// One line: id, kind, time, size, device, and notes.
    private static func text(of version: VersionReport) -> String {
        var notes = [String]()
        if !version.isAvailable { notes.append("not uploaded yet") }
        if let origin = version.origin { notes.append("\(origin.rawValue), by a program of this device") }
        if let error = version.mergeError { notes.append("not merged: \(error)") }
        let time = TerminalStyle.time(version.modifiedAt)
        let columns = [
            String(version.id.prefix(8)), version.kind.rawValue.padded(9), time, ByteSize.text(version.size).padded(10),
            Output.shown("\(version.displayName) from \(version.device)"),
        ]
        return columns.joined(separator: "  ") + (notes.isEmpty ? "" : "  (\(notes.joined(separator: ", ")))")
    }
}

struct ResolveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resolve",
        abstract: "Resolve the conflicts of a file on all devices.",
        discussion: """
            --keep current (the default) keeps the content of the file. --keep VERSION makes that version the current \
            one. --keep both makes a document of every conflict version, beside the file. The cloud keeps the other \
            versions for some time; 'ubiquity versions' lists them.
            """)

    @Option(help: .init("The version to keep.", valueName: "current|VERSION|both"))
    var keep = ResolveRequest.current

    @Argument(help: "The file or package.")
    var path: String

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let location = try state.locate(path)
        var report: ResolveReport = try await Daemon.askingCloud(location, "resolving …") {
            try await $0.ask(
                ControlRoute.resolve, ResolveRequest(path: location.path, keep: keep, process: ProcessHost.id))
        }
        report.path = path
        if output.asJSON { return try Output.json(report) }
        Output.line("resolved \(Output.count(report.resolved, "conflict")) of \(Output.shown(path))")
        for kept in report.kept { Output.line("kept as \(Output.shown(kept))") }
        if let awaited = report.awaits { Output.message(awaited.message) }
    }
}

struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Make a version of a file the current one, or a new document.")

    @Option(help: .init("A new path in the same mount.", valueName: "newpath"))
    var to: String?

    @Argument(help: "The file or package.")
    var path: String

    @Argument(help: "The version: its id or the beginning of it, or its name in '.versions'.")
    var version: String

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let location = try state.locate(path)
        let target = try to.map { try location.sameMount($0) }
        var report: RestoreReport = try await Daemon.askingCloud(location, "restoring …") {
            try await $0.ask(
                ControlRoute.restore,
                RestoreRequest(path: location.path, version: version, to: target, process: ProcessHost.id))
        }
        report.path = to ?? path
        if output.asJSON { return try Output.json(report) }
        Output.line("restored \(Output.shown(report.path))")
        if let awaited = report.awaits { Output.message(awaited.message) }
    }
}

extension VersionAwaits {
    fileprivate var message: String {
        switch self {
        case .cloud: "not shown yet: waiting for the cloud"
        case .content: "not shown yet: its content is being downloaded"
        case .writer: "not shown yet: waiting until the program that writes to the file closes it"
        case .laterEdit: "the file was changed again since, and shows the later change"
        }
    }
}

extension PathResolver.Location {
    var path: String { String(decoding: relativePath, as: UTF8.self) }
    var folder: String { String(decoding: stateFolder, as: UTF8.self) }

    /// Another path in the same mount. Throws `.crossesContainers`.
    func sameMount(_ other: String) throws -> String {
        let location = try MountFinder.locate(other)
        guard location.stateFolder == stateFolder else {
            throw UbiquityError(.crossesContainers, "the path is in another mount", at: other)
        }
        return location.path
    }
}

extension Daemon {
    /// Sends one request to the daemon of a mount, with a progress line meanwhile.
    static func asking<Value>(
        _ location: PathResolver.Location, _ text: String, _ question: (DaemonConnection) async throws -> Value
    ) async throws -> Value {
        try await Progress.showing(text) { _ in try await connected(to: location.folder, question) }
    }

    /// The same for a request that needs the cloud.
    static func askingCloud<Value>(
        _ location: PathResolver.Location, _ text: String, _ question: (DaemonConnection) async throws -> Value
    ) async throws -> Value {
        do { return try await asking(location, text, question) } catch let error as UbiquityError
            where error.isAboutCloud
        {
            throw CloudUnreachable(cause: error)
        }
    }
}

extension String {
    /// Padded with spaces to a width.
    func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}
