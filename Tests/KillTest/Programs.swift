import Foundation
import Glibc
import UbiquitySystem

/// Writes a line without buffering.
func say(_ text: String) { ProcessHost.write(text + "\n", to: 1) }

struct Trouble: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
}

/// Programs that the driver runs. The driver never touches a mount itself: it can kill a program that hangs there.
final class Program {
    let process = Foundation.Process()
    private let output: URL
    let words: [String]

    /// - Parameter output: the file for standard output and error.
    init(_ words: [String], environment: [String: String], output: String) throws {
        self.words = words
        self.output = URL(filePath: output)
        process.executableURL = URL(filePath: words[0])
        process.arguments = Array(words.dropFirst())
        process.environment = environment
        guard FileManager.default.createFile(atPath: output, contents: nil) else { throw Trouble("cannot write \(output)") }
        let file = try FileHandle(forWritingTo: self.output)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = file
        process.standardError = file
        try process.run()
        try file.close()
    }

    var text: String { (try? String(contentsOf: output, encoding: .utf8)) ?? "" }

    /// Waits at most `limit` seconds for the end.
    @discardableResult
    func end(within limit: Double = 60) throws -> Int32 {
        let end = ContinuousClock.now + .seconds(limit)
        while process.isRunning {
            guard ContinuousClock.now < end else {
                kill(process.processIdentifier, SIGKILL)
                throw Trouble("not done after \(limit) s: \(words.joined(separator: " "))\n\(text)")
            }
            usleep(2000)
        }
        return process.terminationStatus
    }

    func succeed(within limit: Double = 60) throws {
        let status = try end(within: limit)
        guard status == 0 else { throw Trouble("exit \(status): \(words.joined(separator: " "))\n\(text)") }
    }
}

/// A temporary folder, with the processes that work in it.
final class World {
    let folder: String
    let program: String
    /// True after a failure: the files are the only trace of its cause.
    var keepsFolder: Bool
    private var outputs = 0
    private(set) var devices: [Device] = []

    init(program: String, keepsFolder: Bool = false) throws {
        let base = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        var template = Array("\(base)/ubiquity-kill-test.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Trouble("cannot create a folder in \(base)") }
        folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        self.program = program
        self.keepsFolder = keepsFolder
        try FileManager.default.createDirectory(atPath: folder + "/output", withIntermediateDirectories: true)
    }

    /// The `ubiquity` executable beside this program.
    static var builtProgram: String {
        if let chosen = ProcessInfo.processInfo.environment["UBIQUITY"] { return chosen }
        let path = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        return URL(filePath: path).deletingLastPathComponent().appending(path: "ubiquity").path
    }

    /// The cloud's data; another folder is another cloud.
    lazy var cloudData: String = folder + "/cloud"

    var environment: [String: String] {
        var environment = ProcessInfo.processInfo.environment
        environment["UBIQUITY_CLOUD_DATA"] = cloudData
        environment["HOME"] = folder
        environment["XDG_RUNTIME_DIR"] = nil
        return environment
    }

    func start(_ words: String...) throws -> Program { try start(words) }

    func start(_ words: [String]) throws -> Program {
        outputs += 1
        return try Program(words, environment: environment, output: "\(folder)/output/\(outputs)")
    }

    /// Runs a program that must succeed, and returns its output.
    @discardableResult
    func run(_ words: String..., limit: Double = 60) throws -> String {
        let program = try start(words)
        try program.succeed(within: limit)
        return program.text
    }

    func device(_ name: String, state: String? = nil) throws -> Device {
        let device = Device(self, name: name, state: state ?? "\(folder)/\(name).state")
        try FileManager.default.createDirectory(atPath: device.mountPoint, withIntermediateDirectories: true)
        devices.append(device)
        return device
    }

    /// `ubiquity doctor` must find nothing.
    func examine(_ device: Device) throws {
        try run(program, "doctor", "--check", device.mountPoint, limit: 120)
    }

    // MARK: The cloud

    var cloudProcess: pid_t? { holder(of: cloudData + "/cloud.lock") }

    func killCloud() throws {
        guard let process = cloudProcess else { return }
        kill(process, SIGKILL)
        try wait("the cloud is dead") { cloudProcess != process }
    }

    func wait(_ what: String, within limit: Double = 30, _ condition: () throws -> Bool) throws {
        let end = ContinuousClock.now + .seconds(limit)
        while try !condition() {
            guard ContinuousClock.now < end else { throw Trouble("the condition does not hold after \(limit) s: \(what)") }
            usleep(2000)
        }
    }

    func end() {
        for device in devices { device.end() }
        if let process = cloudProcess { kill(process, SIGKILL) }
        guard !keepsFolder else { return }
        do {
            // A killed process may write for a moment longer.
            try wait("\(folder) is removed", within: 5) {
                (try? FileManager.default.removeItem(atPath: folder)) != nil
            }
        } catch { say("\(error)") }
    }
}
