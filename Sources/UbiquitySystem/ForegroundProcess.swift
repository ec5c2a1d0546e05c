import CUbiquityShims
import Glibc
import Synchronization

/// Runs a program in place of this one: on its terminal, with its files, to its end.
package enum ForegroundProcess {
    /// The terminal sends these signals to the program as well.
    private static let terminalSignals = [SIGINT, SIGQUIT]
    /// These signals reach only this process but are meant for the program.
    private static let signalsPassedOn = [SIGTERM, SIGHUP]

    /// Finds the program as a shell does, runs it and waits. Blocks. Only one at a time in a process.
    ///
    /// - Returns: The exit status as in a shell; 128 plus the number if a signal ended the program.
    package static func run(_ arguments: [String]) throws(Errno) -> Int32 {
        guard let program = arguments.first else { throw .EINVAL }
        var texts: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for text in texts { free(text) } }
        running.store(0, ordering: .relaxed)
        early.store(0, ordering: .relaxed)
        // This process waits for the program's reaction to the signals. Signals ignored before stay ignored, in the
        // program too.
        let before = (terminalSignals + signalsPassedOn).map { ($0, action(of: $0)) }.filter { !isIgnoring($0.1) }
        for (number, _) in before { signal(number, terminalSignals.contains(number) ? SIG_IGN : passOn) }
        defer {
            for (number, action) in before {
                var action = action
                sigaction(number, &action, nil)
            }
        }
        let process = try spawn(program, &texts, defaults: before.map(\.0))
        running.store(process, ordering: .sequentiallyConsistent)
        let missed = early.exchange(0, ordering: .sequentiallyConsistent)
        if missed != 0 { kill(process, missed) }
        // The process id is not reused until its status is collected, so no signal reaches another process.
        var end = siginfo_t()
        while waitid(P_PID, id_t(process), &end, WEXITED | WNOWAIT) == -1, Glibc.errno == EINTR {}
        running.store(0, ordering: .sequentiallyConsistent)
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1 {
            guard Glibc.errno == EINTR else { throw .last }
        }
        let number = status & 0x7f
        return number == 0 ? status >> 8 & 0xff : 128 + number
    }

    /// The program does not inherit this thread's signal mask, nor the ignored SIGPIPE.
    private static func spawn(
        _ program: String, _ texts: inout [UnsafeMutablePointer<CChar>?], defaults: [Int32]
    ) throws(Errno) -> pid_t {
        var attributes = posix_spawnattr_t()
        _ = posix_spawnattr_init(&attributes)
        defer { _ = posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        _ = posix_spawnattr_setsigmask(&attributes, &signals)
        for number in defaults + [SIGPIPE] { sigaddset(&signals, number) }
        _ = posix_spawnattr_setsigdefault(&attributes, &signals)
        _ = posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        var process: pid_t = 0
        let failure = posix_spawnp(&process, program, nil, &attributes, &texts, environ)
        guard failure == 0 else { throw Errno(rawValue: failure) }
        return process
    }

    private static func action(of number: Int32) -> sigaction {
        var action = sigaction()
        sigaction(number, nil, &action)
        return action
    }

    /// The handler is the structure's first field. It is compared as a number: 1 (ignore) is not a function that Swift
    /// could compare.
    private static func isIgnoring(_ action: sigaction) -> Bool {
        withUnsafeBytes(of: action) { $0.load(as: Int.self) == 1 }
    }

    /// Replaces this process by the same program, with the same arguments and a further variable. A variable set in a
    /// running process is not visible from outside.
    package static func restart(with variable: String, _ value: String) throws(Errno) {
        setenv(variable, value, 1)
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, nil)
        var texts = ProcessHost.rawArguments.map { strdup($0.map { CChar(bitPattern: $0) } + [0]) } + [nil]
        defer { for text in texts { free(text) } }
        execv("/proc/self/exe", &texts)
        throw .last
    }
}

/// The program that gets the signals; 0 if there is none yet.
private let running = Atomic<pid_t>(0)
/// A signal that arrived before the program existed; 0 if none.
private let early = Atomic<Int32>(0)

/// A signal handler, which may do nothing else.
private func passOn(_ number: Int32) {
    let process = running.load(ordering: .sequentiallyConsistent)
    if process != 0 { kill(process, number) } else { early.store(number, ordering: .sequentiallyConsistent) }
}
