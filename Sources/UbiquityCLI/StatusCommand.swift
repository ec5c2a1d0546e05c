import ArgumentParser
import Ubiquity
import UbiquityControl
import UbiquityCore

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show the mounts and their pending changes, or the state of items.")

    @Argument(help: "Files and folders. None: the mount of the working directory, or all mounts.")
    var paths: [String] = []

    @OptionGroup var state: StateOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        if paths.isEmpty { try await showMounts() } else { try await showItems() }
    }

    // MARK: Mounts

    private func showMounts() async throws {
        // In a mount the command means that mount.
        let here = try state.mountHere()
        let mounts = try state.mounts().filter { here == nil || $0.source == here?.stateFolder }
        guard !mounts.isEmpty else {
            throw MountUnreachable("nothing to show", "no container is mounted; 'ubiquity mount FOLDER' mounts one")
        }
        var exitCode: Int32 = 0
        let answers = try await Progress.showing("asking the daemon …") { _ in
            await Self.ask(mounts.map { String(decoding: $0.source, as: UTF8.self) })
        }
        for (mount, answer) in zip(mounts, answers) {
            let place = String(decoding: mount.mountPoint, as: UTF8.self)
            do {
                let status = try answer.get()
                if output.asJSON { try Output.json(status) } else { StatusText.lines(of: status).forEach(Output.line) }
            } catch let error as MountUnreachable {
                exitCode = exitCode == 0 ? ExitStatus.unreachable : exitCode
                Output.error(UbiquityError(.offline, error.reason), about: place)
            } catch let error as UbiquityError {
                exitCode = ExitStatus.failed
                Output.error(error, about: place)
            }
        }
        if exitCode != 0 { throw ExitCode(exitCode) }
    }

    /// Asks all daemons in parallel: several that do not answer would otherwise take their time one after the other.
    /// - Parameter folders: the state folders.
    /// - Returns: answers in their order.
    private static func ask(_ folders: [String]) async -> [Result<MountStatus, any Error>] {
        await withTaskGroup(of: (Int, Result<MountStatus, any Error>).self) { group in
            for (index, folder) in folders.enumerated() {
                group.addTask {
                    do {
                        return (index, .success(try await Daemon.connected(to: folder) { try await $0.status() }))
                    } catch { return (index, .failure(error)) }
                }
            }
            var answers = [Int: Result<MountStatus, any Error>]()
            for await (index, answer) in group { answers[index] = answer }
            return folders.indices.compactMap { answers[$0] }
        }
    }

    // MARK: Items

    private func showItems() async throws {
        let located = try LocatedPaths(paths, state)
        var failures = located.elsewhere.count
        for failure in located.elsewhere { _ = try show(ItemStatusLine(failure: failure), among: []) }
        try await Progress.showing("asking the daemon …") { progress in
            try await located.forEachMount { daemon, items in
                try await daemon.itemStatus(of: items.map(\.relativePath)) { line in
                    progress.clear()
                    if try !show(line, among: items) { failures += 1 }
                }
            }
        }
        if failures > 0 { throw ExitCode(ExitStatus.failed) }
    }

    /// - Returns: false if the line is a failure.
    private func show(_ line: ItemStatusLine, among items: [LocatedPaths.Item]) throws -> Bool {
        if var report = line.report {
            report.path = LocatedPaths.shown(report.path, among: items)
            if output.asJSON { try Output.json(report) } else { Output.line(StatusText.of(report)) }
            return true
        }
        if var failure = line.failure {
            failure.path = LocatedPaths.shown(failure.path, among: items)
            if output.asJSON { try Output.json(failure) }
            Output.error(failure.error?.error ?? UbiquityError(.io, "no status"), about: failure.path)
        }
        return false
    }
}
