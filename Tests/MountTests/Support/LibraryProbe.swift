import Testing

/// A program made with the library, on one device, that executes commands (`Tests/LibraryProbe`).
struct LibraryProbe {
    let device: Device
    let command: Command
    private let orders: String

    static func start(_ device: Device) async throws -> LibraryProbe {
        let orders = "\(device.world.folder)/\(device.name).orders"
        let program = World.program.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/library-probe"
        try await device.world.shell("test -p '\(orders)' || mkfifo '\(orders)'")
        let command = try device.world.start(
            ["/bin/sh", "-c", "exec '\(program)' '\(device.mountPoint)' <> '\(orders)'"])
        try await device.world.eventually("the probe is ready") { command.outputSoFar.contains("ready") }
        return LibraryProbe(device: device, command: command, orders: orders)
    }

    var heard: [String] { command.outputSoFar.split(separator: "\n").map(String.init) }

    func count(_ line: String) -> Int { heard.filter { $0 == line }.count }

    /// Executes a command and waits for its end. Returns the output since then.
    @discardableResult
    func perform(_ line: String, fails: Bool = false) async throws -> [String] {
        let before = heard.count
        try await begin(line)
        try await device.world.eventually("the probe does \(line): \(heard.suffix(30))") {
            heard.dropFirst(before).contains { $0.hasPrefix(fails ? "failed \(line)" : "ok \(line)") }
        }
        return Array(heard.dropFirst(before))
    }

    /// Begins a command without waiting for it.
    func begin(_ line: String) async throws {
        try await device.world.shell("echo '\(line)' > '\(orders)'")
    }

    func waitUntilHeard(_ line: String, times: Int = 1) async throws {
        try await device.world.eventually("the probe says \(line): \(heard.suffix(30))") { count(line) >= times }
    }
}
