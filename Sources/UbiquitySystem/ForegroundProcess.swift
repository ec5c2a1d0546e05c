import CUbiquityShims
import Glibc
import Synchronization

/// Runs a program in this one's place: on its terminal, with its files, to its end.
package enum ForegroundProcess {
    /// The terminal sends these to the program as well.
    private static let terminalSignals = [SIGINT, SIGQUIT]
    /// These are sent to this process alone, and meant for the program.
    private static let signalsPassedOn = [SIGTERM, SIGHUP]

    /// Finds the program as a shell does, runs it and waits. Blocks. One at a time in a process.
    /// - Returns: what a shell would call its exit status: with 128 added to the signal that ended it.
    package static func run(_ arguments: [String]) throws(Errno) -> Int32 {
        guard let program = arguments.first else { throw .EINVAL }
        var texts: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for text in texts { free(text) } }
        running.store(0, ordering: .relaxed)
        early.store(0, ordering: .relaxed)
        // This process waits for what the program makes of them. What was ignored before stays so, also there.
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
        // Its number is its own until its status is taken: nothing is sent to whoever has it then.
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

    /// This thread's signal mask is no part of what the program is to have, nor is that this process takes broken pipes
    /// as errors.
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

    /// The handler comes first. Taken as a number: 1, which means to ignore, is no function that Swift could compare.
    private static func isIgnoring(_ action: sigaction) -> Bool {
        withUnsafeBytes(of: action) { $0.load(as: Int.self) == 1 }
    }

    /// Replaces this process by this program itself, with the same arguments and a further variable: one that was set
    /// while a process runs is not seen from outside.
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

/// The program that signals are passed on to; 0 if there is none yet.
private let running = Atomic<pid_t>(0)
/// The signal that came before it was there; 0 if none did.
private let early = Atomic<Int32>(0)

/// A signal's handler: it may do nothing but this.
private func passOn(_ number: Int32) {
    let process = running.load(ordering: .sequentiallyConsistent)
    if process != 0 { kill(process, number) } else { early.store(number, ordering: .sequentiallyConsistent) }
}
