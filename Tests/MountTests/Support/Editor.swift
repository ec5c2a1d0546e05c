import Foundation
import Testing

/// An editor that takes part in coordination, in 40 lines of another language (`presenter.py`): it shows one item, holds
/// an unsaved text, saves it when asked, and prints all that it is told.
struct Editor {
    enum Manner: String {
        case ready, refusing, silent
    }

    let device: Device
    let command: Command

    /// Returns when it is registered.
    static func start(_ device: Device, _ path: String, unsaved: String = "", _ manner: Manner = .ready) async throws
        -> Editor
    {
        let socket = device.containerState + "/control.sock"
        let command = try device.world.start(
            ["/usr/bin/python3", program, socket, device.mountPoint, path, unsaved, manner.rawValue])
        try await device.world.eventually("the editor shows \(path)") { command.outputSoFar.contains("shown") }
        return Editor(device: device, command: command)
    }

    /// Like `start`; it also carries out lines of Python that it is given with `perform`.
    static func busy(_ device: Device, _ path: String) async throws -> Editor {
        let orders = device.world.folder + "/orders"
        try await device.world.shell("mkfifo '\(orders)'")
        let arguments = [device.containerState + "/control.sock", device.mountPoint, path, "", Manner.ready.rawValue]
        let command = try device.world.start(
            ["/bin/sh", "-c", "exec /usr/bin/python3 -c \"$0\" \"$@\" <> '\(orders)'", worker] + arguments)
        try await device.world.eventually("the editor shows \(path)") { command.outputSoFar.contains("shown") }
        return Editor(device: device, command: command)
    }

    /// Has the editor do something itself, in the mount's root, and waits until it is done.
    func perform(_ line: String) async throws {
        let done = heard.filter { $0 == "did" }.count
        try await device.world.attempt(
            ["/bin/sh", "-ec", "printf '%s\\n' \"$1\" > '\(device.world.folder)/orders'", "sh", line])
        try await device.world.eventually("the editor does \(line): \(heard)") {
            heard.filter { $0 == "did" }.count > done
        }
    }

    /// The kinds of what it was told, each question with its steps, in order.
    var heard: [String] {
        command.outputSoFar.split(separator: "\n").dropFirst().map(String.init)
    }

    func waitUntilHeard(_ line: String) async throws {
        try await device.world.eventually("the editor hears \(line): \(heard)") { heard.contains(line) }
    }

    /// Before the editor: carries out what it reads, in the mount's root.
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
