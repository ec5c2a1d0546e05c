import Foundation
import Testing

/// A program that watches a mount as file managers and editors do.
final class Watcher: Sendable {
    private let world: World
    private let command: Command

    /// Starts `inotifywait` on folders with everything in them, or on files.
    static func start(_ device: Device, _ paths: String..., recursive: Bool = true) async throws -> Watcher {
        let names = (paths.isEmpty ? ["."] : paths).map { "'\($0)'" }.joined(separator: " ")
        let options = recursive ? "-m -r" : "-m"
        let command = try device.start("exec inotifywait \(options) --format '%e %w%f' \(names) 2>&1")
        let watcher = Watcher(device.world, command)
        try await watcher.waitFor("Watches established.")
        return watcher
    }

    /// Starts another program that prints its observations, one per line. It prints `ready` when it watches.
    static func start(_ device: Device, script: String, ready: String) async throws -> Watcher {
        let watcher = Watcher(device.world, try device.start(script))
        try await watcher.waitFor(ready)
        return watcher
    }

    private init(_ world: World, _ command: Command) {
        self.world = world
        self.command = command
    }

    var lines: [String] { command.outputSoFar.split(separator: "\n").map(String.init) }

    /// Waits until it has printed all of these, in whatever order.
    func waitFor(_ expected: String..., sourceLocation: SourceLocation = #_sourceLocation) async throws {
        do {
            try await world.eventually("it prints \(expected)", within: 60, sourceLocation: sourceLocation) {
                Set(expected).isSubset(of: self.lines)
            }
        } catch {
            Issue.record("it printed \(self.lines.suffix(40))", sourceLocation: sourceLocation)
            throw error
        }
    }

    func count(_ line: String) -> Int { lines.filter { $0 == line }.count }

    func end() { command.signal(SIGTERM) }
}
