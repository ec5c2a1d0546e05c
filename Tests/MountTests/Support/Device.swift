import Foundation
import Glibc
import Testing
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// One device of a `World`: a state folder and a mount point.
final class Device: Sendable {
    let world: World
    let name: String
    let state: String
    let mountPoint: String

    init(_ world: World, name: String) {
        self.world = world
        self.name = name
        state = "\(world.folder)/\(name).state"
        mountPoint = "\(world.folder)/\(name)"
    }

    /// The container's part of the state folder.
    var containerState: String { state + "/local/default" }
    var log: String { containerState + "/daemon.log" }

    // MARK: The daemon

    /// Tries to mount.
    func tryMount(_ options: [String] = [], environment: [String: String] = [:]) async throws -> Command.Outcome {
        let arguments = [World.program, "mount", "--state", state, "--device", name, "--disk-floor", "0"]
        return try await world.attempt(arguments + options + [mountPoint], environment: environment)
    }

    func mount(_ options: [String] = [], environment: [String: String] = [:]) async throws {
        let outcome = try await tryMount(options, environment: environment)
        try #require(outcome.status == 0, "mount: \(outcome)")
    }

    @discardableResult
    func unmount(_ options: String...) async throws -> Command.Outcome {
        let outcome = try await world.attempt([World.program, "unmount"] + options + [mountPoint])
        try #require(outcome.status == 0, "unmount: \(outcome)")
        return outcome
    }

    /// The process that serves the mount.
    var processID: pid_t? { World.holder(of: containerState + "/lock") }

    /// Kills the daemon with SIGKILL, which no handler sees.
    func kill() async throws {
        let process = try #require(processID)
        Glibc.kill(process, SIGKILL)
        try await world.eventually("\(name)'s daemon is dead") { self.processID == nil }
    }

    /// Kills the daemon and mounts again.
    func killAndMount(_ options: String...) async throws {
        try await kill()
        try await mount(options)
    }

    /// Whether something is mounted at the mount point.
    var isMounted: Bool {
        // Not with Foundation, which reads only the first page of such a file: with many mounts none was removed.
        let table = (try? SmallFile.read("/proc/self/mountinfo", limit: 64 << 20)) ?? []
        return String(decoding: table, as: UTF8.self).contains(" \(mountPoint) ")
    }

    /// Removes all that is left.
    func end() async {
        let process = processID
        if let process { Glibc.kill(process, SIGKILL) }
        for _ in 0..<5 where isMounted { _ = umount2(mountPoint, CInt(MNT_DETACH)) }
    }

    // MARK: Programs in the mount

    /// Runs a shell script in the mount. A failure of the script is not an error.
    func attempt(_ script: String, within limit: Double = Command.usualLimit) async throws -> Command.Outcome {
        try await world.attempt(["/bin/sh", "-ec", "cd '\(mountPoint)'\n\(script)"], within: limit)
    }

    /// Runs a shell script in the mount, which must succeed; its output without the last newline.
    @discardableResult
    func shell(_ script: String, within limit: Double = Command.usualLimit) async throws -> String {
        let outcome = try await attempt(script, within: limit)
        guard outcome.status == 0 else { throw Command.Failure(description: "\(name): \(script)\n\(outcome)") }
        return outcome.text
    }

    /// Starts a shell script in the mount.
    func start(_ script: String) throws -> Command {
        try world.start(["/bin/sh", "-ec", "cd '\(mountPoint)'\n\(script)"])
    }

    /// Runs a Python program in the mount, which must succeed. `os`, `sys`, `ctypes` and `errno` are there.
    @discardableResult
    func python(_ program: String, within limit: Double = Command.usualLimit) async throws -> String {
        try await Tools.python("import os\nos.chdir('\(mountPoint)')\n\(program)", in: world, within: limit)
    }

    // MARK: Commands about the mount

    /// Runs `ubiquity COMMAND OPTIONS PATH…`, paths in the mount.
    @discardableResult
    func ubiquity(
        _ command: String, _ paths: String..., options: [String] = [], within limit: Double = Command.usualLimit
    ) async throws -> Command.Outcome {
        let full = paths.map { $0.isEmpty ? mountPoint : "\(mountPoint)/\($0)" }
        return try await world.attempt([World.program, command] + options + full, within: limit)
    }

    func waitUntilIdle(within limit: Double = Command.usualLimit) async throws {
        try await wait("--idle", within: limit)
    }

    func wait(_ condition: String, _ path: String = "", within limit: Double = Command.usualLimit) async throws {
        let outcome = try await ubiquity(
            "wait", path, options: [condition, "--timeout", "\(limit)"], within: limit + 10)
        try #require(outcome.status == 0, "\(name): wait \(condition): \(outcome)")
    }

    func status() async throws -> MountStatus {
        let outcome = try await world.ubiquity("status", "--json", "--state", state)
        for line in outcome.out.split(separator: "\n") {
            let status = try ControlCodec.decode(MountStatus.self, from: line.utf8)
            if status.mountPoint == mountPoint { return status }
        }
        throw Command.Failure(description: "no status of \(mountPoint): \(outcome)")
    }

    func report(_ path: String) async throws -> ItemReport {
        let outcome = try await ubiquity("status", path, options: ["--json"])
        try #require(outcome.status == 0, "\(outcome)")
        return try ControlCodec.decode(ItemReport.self, from: outcome.text.utf8)
    }

    /// The value of `user.ubiquity.NAME`.
    func attribute(_ name: String, of path: String) async throws -> String {
        try await shell("getfattr --only-values -n user.ubiquity.\(name) '\(path)'")
    }

    /// All attributes `user.ubiquity.*`, without that prefix.
    func attributes(of path: String) async throws -> [String: String] {
        var result = [String: String]()
        for line in try await shell("getfattr -d '\(path)'").split(separator: "\n") {
            guard let equals = line.firstIndex(of: "="), line.hasPrefix("user.ubiquity.") else { continue }
            let value = line[line.index(after: equals)...].dropFirst().dropLast()
            result[String(line[..<equals].dropFirst("user.ubiquity.".count))] = String(value)
        }
        return result
    }

    /// Waits until an attribute has a value.
    func waitFor(
        _ name: String, _ value: String, of path: String, within limit: Double = 30,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await world.eventually("\(name) of \(path) is \(value)", within: limit, sourceLocation: sourceLocation) {
            try await self.attempt("getfattr --only-values -n user.ubiquity.\(name) '\(path)'").text == value
        }
    }

    /// Waits until a shell script in the mount succeeds.
    func waitUntil(
        _ script: String, within limit: Double = 30, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await world.eventually("\(name): \(script)", within: limit, sourceLocation: sourceLocation) {
            try await self.attempt(script).status == 0
        }
    }

    /// Bytes that came from the cloud while `body` ran.
    func received(_ body: () async throws -> Void) async throws -> Int64 {
        let before = try await status().bytesReceived
        try await body()
        return try await status().bytesReceived - before
    }

    /// Bytes that went to the cloud while `body` ran.
    func sent(_ body: () async throws -> Void) async throws -> Int64 {
        let before = try await status().bytesSent
        try await body()
        return try await status().bytesSent - before
    }
}
