internal import UbiquitySystem

/// Identifies the program of a calling process.
enum ProgramName {
    /// Whether the process (or thread) has one of these names, or runs a program with one of them. A program may rename
    /// its threads.
    /// - Parameter scripts: whether a script that an interpreter runs counts. For a script started by env(1) the kernel
    ///   knows only the interpreter.
    static func isOne(of names: Set<String>, _ process: Int32, scripts: Bool = false) -> Bool {
        guard process > 0 else { return false }
        // A process that has ended, or belongs to another user, gets no special treatment.
        if let name = try? SmallFile.read("/proc/\(process)/comm", limit: 64),
            names.contains(String(decoding: name.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
        {
            return true
        }
        guard let program = try? FileSystem.readLink("/proc/\(process)/exe") else { return false }
        let name = Path.name(of: String(decoding: program, as: UTF8.self))
        if names.contains(name) { return true }
        guard scripts, let interpreter = Interpreter.named(name), let script = script(of: process, interpreter) else {
            return false
        }
        return names.contains(script)
    }

    /// Bytes of a command line that are examined; a script's path is near its beginning.
    private static let longestStart = 4096

    private static func script(of process: Int32, _ interpreter: Interpreter) -> String? {
        guard let file = try? FileDescriptor.open("/proc/\(process)/cmdline", .readOnly),
            let line = try? file.readSome(count: longestStart)
        else { return nil }
        return interpreter.script(in: line.split(separator: 0).dropFirst())
    }
}
