import Foundation
import Glibc
import Testing
import UbiquityCore
import UbiquitySystem

/// One test's machines: a cloud and devices with their own state folders and mount points in a temporary folder.
///
/// After the test, also after a failure, every mount is removed and every process is ended.
final class World: Sendable {
    let folder: String
    /// The data folder of the devices' embedded cloud.
    let cloudData: String
    private let counter = Lock(0)
    private let commands = Lock([Command]())
    private let devices = Lock([Device]())
    private let folders = Lock([String]())

    /// The number of worlds at a time: each has several busy processes.
    private static let slots = Slots(4)

    private init() throws {
        let base = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(base)/ubiquity-mount-test.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Command.Failure(description: "cannot make a folder in \(base)") }
        folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        cloudData = folder + "/cloud"
        try FileManager.default.createDirectory(atPath: folder + "/output", withIntermediateDirectories: true)
    }

    /// Runs a test in a world of its own.
    static func run(_ body: @Sendable (World) async throws -> Void) async throws {
        await slots.enter()
        do {
            let world = try World()
            do {
                try await body(world)
            } catch {
                world.showLogs()
                await world.end()
                throw error
            }
            await world.end()
        } catch {
            await slots.leave()
            throw error
        }
        await slots.leave()
    }

    // MARK: Programs

    /// `ubiquity`: the program that UBIQUITY names, otherwise the one that was built beside the tests.
    static let program: String = {
        if let chosen = ProcessInfo.processInfo.environment["UBIQUITY"] { return chosen }
        let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(filePath: path).deletingLastPathComponent().appending(path: "ubiquity").path
    }()

    var environment: [String: String] {
        var environment = ProcessInfo.processInfo.environment
        environment["UBIQUITY_CLOUD_DATA"] = cloudData
        environment["UBIQUITY_STATE"] = nil
        environment["XDG_STATE_HOME"] = nil
        environment["HOME"] = folder
        environment["LC_ALL"] = "C.UTF-8"
        environment["GIT_CONFIG_NOSYSTEM"] = "1"
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["XDG_RUNTIME_DIR"] = nil
        return environment
    }

    /// Starts a program.
    func start(
        _ arguments: [String], input: String = "/dev/null", environment more: [String: String] = [:]
    ) throws -> Command {
        let number = counter.withLock { count in
            count += 1
            return count
        }
        let command = try Command(
            arguments, environment: environment.merging(more) { $1 }, output: "\(folder)/output/\(number)", input: input
        )
        commands.withLock { $0.append(command) }
        return command
    }

    /// Runs a program to its end. Its failure is not an error.
    @discardableResult
    func attempt(
        _ arguments: [String], environment more: [String: String] = [:], within limit: Double = Command.usualLimit
    ) async throws -> Command.Outcome {
        try await start(arguments, environment: more).finish(within: limit)
    }

    /// Runs `ubiquity` to its end.
    @discardableResult
    func ubiquity(_ arguments: String..., within limit: Double = Command.usualLimit) async throws -> Command.Outcome {
        try await attempt([Self.program] + arguments, within: limit)
    }

    /// Runs a shell script, which must succeed; its output without the last newline.
    @discardableResult
    func shell(_ script: String, within limit: Double = Command.usualLimit) async throws -> String {
        let outcome = try await attempt(["/bin/sh", "-ec", script], within: limit)
        guard outcome.status == 0 else { throw Command.Failure(description: "\(script)\n\(outcome)") }
        return outcome.text
    }

    // MARK: Devices and clouds

    /// A device that is not mounted yet.
    func device(_ name: String) throws -> Device {
        let device = Device(self, name: name)
        try FileManager.default.createDirectory(atPath: device.mountPoint, withIntermediateDirectories: true)
        devices.withLock { $0.append(device) }
        return device
    }

    /// A device with its container mounted.
    func mounted(_ name: String, _ options: String...) async throws -> Device {
        let device = try device(name)
        try await device.mount(options)
        return device
    }

    /// The process that holds the embedded cloud's data.
    var cloudProcess: pid_t? { Self.holder(of: cloudData + "/cloud.lock") }

    /// The numbers of the cloud's items with deleted ones, of versions of all of them, and of versions of `item` if it
    /// is given.
    func cloudCounts(of item: String? = nil) async throws -> [Int] {
        let count = "SELECT count(*) FROM"
        var questions = "\(count) items; \(count) versions"
        if let item { questions += "; \(count) versions WHERE item = x'\(item)'" }
        return try await shell("sqlite3 '\(cloudData)/metadata.db' \"\(questions)\"")
            .split(separator: "\n").compactMap { Int($0) }
    }

    static func holder(of lock: String) -> pid_t? { (try? ProcessLock.holder(of: lock)).flatMap { $0 } }

    /// Kills the embedded cloud like a power cut of its process.
    func killCloud() async throws {
        try await eventually("the cloud runs") { self.cloudProcess != nil }
        let process = try #require(cloudProcess)
        Glibc.kill(process, SIGKILL)
        try await eventually("the cloud is dead") { self.cloudProcess != process }
    }

    /// Puts a file in the place of the cloud's folder, so that no embedded cloud can run.
    func blockCloud() async throws {
        if let process = cloudProcess {
            Glibc.kill(process, SIGSTOP)
            rename(cloudData, cloudData + ".away")
            Glibc.kill(process, SIGKILL)
        } else {
            rename(cloudData, cloudData + ".away")
        }
        try await shell("echo 'in the way' > '\(cloudData)'")
    }

    func unblockCloud() {
        unlink(cloudData)
        rename(cloudData + ".away", cloudData)
    }

    /// Waits until all these devices agree with the cloud and are idle.
    func settle(_ devices: Device..., within limit: Double = Command.usualLimit) async throws {
        for device in devices { try await device.waitUntilIdle(within: limit) }
        for device in devices where devices.count > 1 { try await device.waitUntilIdle(within: limit) }
    }

    /// Both change something offline, one after the other; the change of `second` reaches the cloud first.
    func meet(_ first: Device, _ its: String, _ second: Device, _ other: String) async throws {
        for device in [first, second] { try await device.ubiquity("offline", "") }
        try await first.shell(its)
        try await second.shell(other)
        for device in [second, first] {
            try await device.ubiquity("online", "")
            try await device.waitUntilIdle()
        }
        try await settle(first, second)
    }

    /// Waits until a condition holds.
    func eventually(
        _ what: String, within limit: Double = 30, sourceLocation: SourceLocation = #_sourceLocation,
        _ condition: () async throws -> Bool
    ) async throws {
        let end = ContinuousClock.now + .seconds(limit)
        while try await !condition() {
            guard ContinuousClock.now < end else {
                Issue.record("the condition does not hold after \(limit) s: \(what)", sourceLocation: sourceLocation)
                throw Command.Failure(description: "the condition does not hold after \(limit) s: \(what)")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    // MARK: The end

    /// Registers a folder where a test has mounted something else.
    func noteMounted(_ path: String) { folders.withLock { $0.append(path) } }

    private func end() async {
        for command in commands.withLock({ $0 }) { command.signal(SIGKILL) }
        for device in devices.withLock({ $0 }) { await device.end() }
        for lock in [cloudData + "/cloud.lock", cloudData + ".away/cloud.lock"] {
            if let process = Self.holder(of: lock) { Glibc.kill(process, SIGKILL) }
        }
        for path in folders.withLock({ $0 }) { _ = umount2(path, CInt(MNT_DETACH)) }
        // A dying process releases its files after a moment.
        for _ in 0..<100 {
            if (try? FileManager.default.removeItem(atPath: folder)) != nil { return }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    private func showLogs() {
        var logs = devices.withLock { $0 }.map(\.log)
        logs.append(cloudData + "/cloud.log")
        for log in logs {
            guard let data = FileManager.default.contents(atPath: log) else { continue }
            let lines = String(decoding: data, as: UTF8.self).split(separator: "\n").suffix(25)
            FileHandle.standardError.write(Data("== \(log)\n\(lines.joined(separator: "\n"))\n".utf8))
        }
    }
}

/// Admits a limited number at a time.
actor Slots {
    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ count: Int) { free = count }

    func enter() async {
        if free > 0 {
            free -= 1
        } else {
            await withCheckedContinuation { waiting.append($0) }
        }
    }

    func leave() {
        if waiting.isEmpty { free += 1 } else { waiting.removeFirst().resume() }
    }
}
