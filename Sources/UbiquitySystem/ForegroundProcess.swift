import CUbiquityShims
import Glibc

/// Runs a program in this one's place: on its terminal, with its files, to its end.
package enum ForegroundProcess {
    /// Finds the program as a shell does, runs it and waits. Blocks.
    /// - Parameter environment: what it finds in its environment beside what this process has.
    /// - Returns: what a shell would call its exit status: with 128 added to the signal that ended it.
    package static func run(
        _ arguments: [String], environment more: [String: String] = [:]
    ) throws(Errno) -> Int32 {
        guard let program = arguments.first else { throw .EINVAL }
        var variables: [UnsafeMutablePointer<CChar>?] =
            environmentLines(without: Set(more.keys)).map { strdup($0) }
            + more.sorted { $0.key < $1.key }.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for variable in variables { free(variable) } }
        var texts: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for text in texts { free(text) } }
        // The terminal's signals are for the program; this process waits for what it makes of them.
        let signals = [SIGINT, SIGQUIT]
        let before = signals.map { signal($0, SIG_IGN) }
        defer { for (number, handler) in zip(signals, before) { signal(number, handler) } }
        var attributes = posix_spawnattr_t()
        _ = posix_spawnattr_init(&attributes)
        defer { _ = posix_spawnattr_destroy(&attributes) }
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for number in signals { sigaddset(&defaults, number) }
        _ = posix_spawnattr_setsigdefault(&attributes, &defaults)
        _ = posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF))
        var process: pid_t = 0
        let failure = posix_spawnp(&process, program, nil, &attributes, &texts, &variables)
        guard failure == 0 else { throw Errno(rawValue: failure) }
        var status: Int32 = 0
        while waitpid(process, &status, 0) == -1 {
            guard Glibc.errno == EINTR else { throw .last }
        }
        let number = status & 0x7f
        return number == 0 ? status >> 8 & 0xff : 128 + number
    }

    private static func environmentLines(without names: Set<String>) -> [UnsafeMutablePointer<CChar>] {
        var lines = [UnsafeMutablePointer<CChar>]()
        var next: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = environ
        while let line = next?.pointee {
            let name = String(cString: line).prefix { $0 != "=" }
            if !names.contains(String(name)) { lines.append(line) }
            next = next?.successor()
        }
        return lines
    }
}
