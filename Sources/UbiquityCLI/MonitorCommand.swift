import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct MonitorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "monitor",
        abstract: "Show events and transfers live, until it is interrupted or the mount ends.")

    @Argument(help: "The mount point, or any path in it; needed if several are mounted.")
    var mountPoint: String?

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let location = try state.mount(of: mountPoint)
        let paths = ShownPaths(mountPoint: location.mountPoint)
        try await Daemon.connected(to: String(decoding: location.stateFolder, as: UTF8.self)) { daemon in
            try await daemon.events { event in
                if output.asJSON { try Output.json(event) } else { Output.line(Self.text(event, paths)) }
            }
        }
        Output.message("the mount has ended")
    }

    /// "upload-progress  Documents/a.bin  1.5 MiB of 12 MiB".
    static func text(_ event: ControlEvent, _ paths: ShownPaths) -> String {
        var parts = [event.kind.rawValue]
        if let old = event.oldPath { parts.append("\(Output.shown(paths.text(old))) ->") }
        if let path = event.path { parts.append(Output.shown(paths.text(path))) }
        if let state = event.state { parts.append(state.rawValue) }
        if let version = event.version {
            parts.append("\(event.isConflict == true ? "conflict" : "earlier") \(version.prefix(8))")
        }
        if let client = event.client { parts.append(client) }
        if let steps = event.steps { parts.append(steps.joined(separator: ", ")) }
        switch (event.bytes, event.totalBytes) {
        case (let bytes?, let total?): parts.append("\(ByteSize.text(bytes)) of \(ByteSize.text(total))")
        case (let bytes?, nil): parts.append(ByteSize.text(bytes))
        case (nil, let total?): parts.append(ByteSize.text(total))
        case (nil, nil): break
        }
        if let error = event.error { parts.append(Output.shown(error)) }
        return parts.joined(separator: "  ")
    }
}
