import Foundation
import Glibc
import UbiquitySystem

/// A program that a test runs, in a process group of its own.
///
/// The test process never touches a mount itself: a blocked call would occupy one of the few threads that all tests
/// share, and a hanging daemon would hang the test. Programs write into files rather than pipes, so that nobody waits
/// for a pipe of a daemon that outlives its parent.
final class Command: Sendable {
    /// How a program ended.
    struct Outcome: Sendable, CustomStringConvertible {
        /// The exit code; for a signal 128 plus its number, as in a shell.
        var status: Int32
        var out: String
        var err: String

        /// The output without the last newline, like `$(…)`.
        var text: String { out.hasSuffix("\n") ? String(out.dropLast()) : out }
        var description: String { "exit \(status)\nstdout: \(out.prefix(4000))\nstderr: \(err.prefix(4000))" }
    }

    struct Failure: Error, CustomStringConvertible {
        var description: String
    }

    let arguments: [String]
    let processID: pid_t
    private let output: String
    /// Nil while it runs.
    private let status = Lock<Int32?>(nil)

    /// Limit for an ordinary command in seconds: hundreds of times its need on an idle machine.
    static let usualLimit = 60.0
    /// Limit after a kill; a process that still exists then hangs in the kernel.
    private static let deathLimit = 5.0

    /// - Parameter output: a file name that nobody else uses; ".out" and ".err" are added to it.
    init(_ arguments: [String], environment: [String: String], output: String, input: String = "/dev/null") throws {
        self.arguments = arguments
        self.output = output
        processID = try Self.spawn(arguments, environment, output, input)
        let process = processID
        Thread.detachNewThread { [self] in
            var information = siginfo_t()
            while waitid(P_PID, id_t(process), &information, WEXITED | WNOWAIT) != 0, errno == EINTR {}
            status.withLock { known in
                // Only after this wait may another process get the number, so `signal` never reaches another process.
                var status: Int32 = 0
                waitpid(process, &status, 0)
                known = status & 0x7f == 0 ? (status >> 8) & 0xff : 128 + (status & 0x7f)
            }
        }
    }

    private static func spawn(
        _ arguments: [String], _ environment: [String: String], _ output: String, _ input: String
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output + ".out", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, output + ".err", O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Signals that this program's threads block or ignore would be lost to the child: SIGCHLD for a shell's `wait`.
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var list = arguments.map { strdup($0) } + [nil]
        var variables = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { for text in list + variables { free(text) } }
        var process: pid_t = 0
        let result = posix_spawnp(&process, arguments[0], &actions, &attributes, &list, &variables)
        guard result == 0 else {
            throw Failure(description: "cannot start \(arguments[0]): \(String(cString: strerror(result)))")
        }
        return process
    }

    var isRunning: Bool { status.withLock { $0 == nil } }

    /// Signals the program and its children, if it still runs.
    func signal(_ number: Int32) {
        status.withLock { if $0 == nil { Glibc.kill(-processID, number) } }
    }

    /// Waits for the end; kills the program after `limit` seconds.
    @discardableResult
    func finish(within limit: Double = usualLimit) async throws -> Outcome {
        if await !hasEnded(within: limit) {
            signal(SIGKILL)
            _ = await hasEnded(within: Self.deathLimit)
            let told = (try? outcome(status: -1)).map(\.description) ?? ""
            throw Failure(description: "not done after \(limit) s: \(arguments.joined(separator: " "))\n\(told)")
        }
        return try outcome(status: status.withLock { $0 ?? -1 })
    }

    private func outcome(status: Int32) throws -> Outcome {
        Outcome(status: status, out: try Self.text(output + ".out"), err: try Self.text(output + ".err"))
    }

    private static func text(_ path: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: path)), as: UTF8.self)
    }

    /// Whether it is in an open of that path, in this spelling. Throws its output if it has ended.
    func isOpening(_ path: String) throws -> Bool {
        if !isRunning {
            let outcome = try outcome(status: status.withLock { $0 ?? -1 })
            throw Failure(description: "ended without waiting for \(path): \(outcome)")
        }
        guard let call = try? String(contentsOfFile: "/proc/\(processID)/syscall", encoding: .utf8).split(separator: " "),
            call.count > 2, call[0] == "257", let address = UInt64(call[2].dropFirst(2), radix: 16),
            let memory = FileHandle(forReadingAtPath: "/proc/\(processID)/mem")
        else { return false }
        defer { try? memory.close() }
        let argument = Data(path.utf8) + [0]
        try? memory.seek(toOffset: address)
        return (try? memory.read(upToCount: argument.count)) == argument
    }

    /// Whether it is in a call that needs the content of an open file of that name, given without folders: read,
    /// pread64, ftruncate or copy_file_range from it.
    func isUsing(_ name: String) -> Bool {
        guard let call = try? String(contentsOfFile: "/proc/\(processID)/syscall", encoding: .utf8).split(separator: " "),
            call.count > 1, ["0", "17", "77", "326"].contains(call[0]),
            let descriptor = UInt64(call[1].dropFirst(2), radix: 16)
        else { return false }
        let link = "/proc/\(processID)/fd/\(descriptor)"
        return (try? FileManager.default.destinationOfSymbolicLink(atPath: link))?.hasSuffix("/" + name) == true
    }

    /// The output so far.
    var outputSoFar: String { (try? Self.text(output + ".out")) ?? "" }

    private func hasEnded(within limit: Double) async -> Bool {
        let end = ContinuousClock.now + .seconds(limit)
        while isRunning {
            guard ContinuousClock.now < end else { return false }
            try? await Task.sleep(for: .milliseconds(4))
        }
        return true
    }
}
