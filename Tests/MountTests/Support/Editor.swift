import Foundation
import Testing

/// An editor with coordination, in 40 lines of another language (`presenter.py`): it shows one item, holds an unsaved
/// text, saves it on request, and prints every message.
struct Editor {
    enum Manner: String {
        case ready, refusing, silent
    }

    let device: Device
    let command: Command

    /// Returns when the editor is registered.
    static func start(_ device: Device, _ path: String, unsaved: String = "", _ manner: Manner = .ready) async throws
        -> Editor
    {
        let socket = device.containerState + "/control.sock"
        let command = try device.world.start(
            ["/usr/bin/python3", program, socket, device.mountPoint, path, unsaved, manner.rawValue])
        try await device.world.eventually("the editor shows \(path)") { command.outputSoFar.contains("shown") }
        return Editor(device: device, command: command)
    }

    /// Like `start`; the editor also executes lines of Python from `perform`.
    static func busy(_ device: Device, _ path: String) async throws -> Editor {
        let orders = device.world.folder + "/orders"
        try await device.world.shell("mkfifo '\(orders)'")
        let arguments = [device.containerState + "/control.sock", device.mountPoint, path, "", Manner.ready.rawValue]
        let command = try device.world.start(
            ["/bin/sh", "-c", "exec /usr/bin/python3 -c \"$0\" \"$@\" <> '\(orders)'", worker] + arguments)
        try await device.world.eventually("the editor shows \(path)") { command.outputSoFar.contains("shown") }
        return Editor(device: device, command: command)
    }

    /// Makes the editor execute a line in the mount's root, and waits for its end.
    func perform(_ line: String) async throws {
        let done = heard.filter { $0 == "did" }.count
        try await device.world.attempt(
            ["/bin/sh", "-ec", "printf '%s\\n' \"$1\" > '\(device.world.folder)/orders'", "sh", line])
        try await device.world.eventually("the editor does \(line): \(heard)") {
            heard.filter { $0 == "did" }.count > done
        }
    }

    /// The kinds of its messages, each question with its steps, in order.
    var heard: [String] {
        command.outputSoFar.split(separator: "\n").dropFirst().map(String.init)
    }

    func waitUntilHeard(_ line: String) async throws {
        try await device.world.eventually("the editor hears \(line): \(heard)") { heard.contains(line) }
    }

    /// A prefix of the editor that executes its input, in the mount's root.
    private static let worker = #"""
        import os, subprocess, sys, threading
        def work():
            os.chdir(sys.argv[2])
            for line in sys.stdin:
                exec(line, globals())
                print("did", flush=True)
        threading.Thread(target=work, daemon=True).start()
        exec(open("PROGRAM").read())
        """#.replacingOccurrences(of: "PROGRAM", with: program)

    private static let program = URL(filePath: #filePath).deletingLastPathComponent().path + "/presenter.py"
}
