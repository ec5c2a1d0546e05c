import Glibc
import UbiquityCore

/// This process's environment: its user, its variables, its standard streams.
package enum ProcessHost {
    /// The command line, the program itself first, as the kernel has it.
    ///
    /// Swift looks for the arguments next to the original environment. It finds nothing if a library loaded before the
    /// program has set a variable (LD_PRELOAD, as faketime does).
    static let rawArguments: [[UInt8]] = {
        guard let bytes = try? SmallFile.read("/proc/self/cmdline", limit: argumentLimit), bytes.last == 0 else {
            return CommandLine.arguments.map { Array($0.utf8) }
        }
        return bytes.dropLast().split(separator: 0, omittingEmptySubsequences: false).map(Array.init)
    }()

    /// Bytes; the kernel allows six mebibytes at most.
    private static let argumentLimit = 8 << 20

    package static let arguments = rawArguments.map { String(decoding: $0, as: UTF8.self) }

    /// The first argument that is not UTF-8, with replacement characters.
    package static var argumentThatIsNotUTF8: String? {
        rawArguments.first { String(validating: $0, as: UTF8.self) == nil }.map { String(decoding: $0, as: UTF8.self) }
    }

    /// This program's file, even after it was replaced on disk.
    package static let executable = "/proc/self/exe"

    /// This program's name.
    package static var programName: String {
        let path = (try? FileSystem.readLink(executable)).map { String(decoding: $0, as: UTF8.self) }
        return path.map(Path.name(of:)) ?? "process \(id)"
    }

    /// Names this process for `ps` and `top`. A process started through `/proc/self/exe` would be named "exe".
    package static func setName(_ name: String) {
        // Without /proc there is no ps to show the name.
        try? FileDescriptor.open("/proc/self/comm", [.writeOnly]).write(Array(name.utf8))
    }

    package static var id: Int32 { getpid() }
    package static var userID: UInt32 { geteuid() }

    /// Returns an environment variable; nil if it is unset or empty.
    package static func variable(_ name: String) -> String? {
        guard let value = getenv(name) else { return nil }
        let text = String(cString: value)
        return text.isEmpty ? nil : text
    }

    /// All variables as "NAME=value".
    package static var environment: [String] {
        var result = [String]()
        var next = environ
        while let entry = next.pointee {
            result.append(String(cString: entry))
            next = next.advanced(by: 1)
        }
        return result
    }

    /// Returns the working directory, absolute and without symlinks.
    package static func workingDirectory() throws(Errno) -> [UInt8] {
        guard let path = getcwd(nil, 0) else { throw .last }
        defer { free(path) }
        return Array(UnsafeRawBufferPointer(start: path, count: strlen(path)))
    }

    package static func setWorkingDirectory(_ path: String) throws(Errno) {
        _ = try path.withCPath { path throws(Errno) in try check(chdir(path)) }
    }

    /// Stops keeping a file system busy: changes to the root folder and closes inherited files below `folder`
    /// (absolute, without symlinks), except the standard streams.
    package static func leave(_ folder: [UInt8]) {
        _ = chdir("/")
        let streams = "/proc/self/fd"
        for entry in (try? FileSystem.entries(of: streams)) ?? [] {
            let name = String(decoding: entry.name, as: UTF8.self)
            guard let number = Int32(name), number > 2, let target = try? FileSystem.readLink("\(streams)/\(name)"),
                target == folder || target.starts(with: folder + [UInt8(ascii: "/")])
            else { continue }
            _ = close(number)
        }
    }

    /// This machine's name; "localhost" if it has none.
    package static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0, buffer[0] != 0 else { return "localhost" }
        return String(decoding: buffer.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// The user's home, from the environment or the user database.
    package static var homeDirectory: String {
        if let home = variable("HOME") { return home }
        guard let entry = getpwuid(geteuid()), let home = entry.pointee.pw_dir else { return "/" }
        return String(cString: home)
    }

    /// Returns whether a standard stream (0, 1, 2) is a terminal.
    package static func isTerminal(_ stream: Int32) -> Bool { isatty(stream) == 1 }

    /// Columns of the terminal on standard error; nil if it is not a terminal.
    package static var terminalWidth: Int? {
        var size = winsize()
        guard ioctl(2, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Writes all of the text to standard output (1) or error (2). It stops silently if the stream is closed or full,
    /// because there is no way to report it.
    package static func write(_ text: String, to stream: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(stream, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }

    /// Makes new files private to their owner, whatever the inherited umask.
    package static func keepNewFilesPrivate() { _ = umask(0o077) }

    /// Makes a write to a broken pipe or socket fail with EPIPE instead of ending the process.
    package static func ignoreBrokenPipes() { _ = signal(SIGPIPE, SIG_IGN) }

    /// Raises the limit of open files to the maximum for this user. A privileged root process gets the machine's
    /// maximum for one process.
    ///
    /// - Throws: `.tooManyOpenFiles` if the limit is too low: databases, sockets, event loops and threads take some 60
    ///   before the first file.
    package static func raiseOpenFileLimit() throws(UbiquityError) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
        let most = mostOpenFiles
        if limit.rlim_max < most {
            var raised = rlimit(rlim_cur: most, rlim_max: most)
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { return }
        }
        guard limit.rlim_max >= leastOpenFiles else {
            throw UbiquityError(
                .tooManyOpenFiles, "this process may have \(limit.rlim_max) files open, and needs \(leastOpenFiles)",
                remedy: "raise the limit: ulimit -Hn in the shell, LimitNOFILE= of the service, nofile in limits.conf")
        }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    private static let leastOpenFiles: rlim_t = 256

    /// The machine's limit of open files for one process (`fs.nr_open`), at most 1,048,576, because child programs may
    /// close every possible descriptor one by one. 0 if it is not known.
    private static var mostOpenFiles: rlim_t {
        let text = (try? SmallFile.read("/proc/sys/fs/nr_open", limit: 64)).flatMap { $0 } ?? []
        let digits = text.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return min(rlim_t(String(decoding: digits, as: UTF8.self)) ?? 0, 1 << 20)
    }

    /// The limit of open files of this process.
    package static var openFileLimit: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        return Int(clamping: limit.rlim_cur)
    }

    /// Returns whether a process with that id exists (a zombie counts).
    package static func isRunning(_ process: Int32) -> Bool { kill(process, 0) == 0 || errno == EPERM }

    /// Returns whether two ids of processes or threads belong to the same process. 0 means unknown and matches nothing.
    package static func isSame(_ one: Int32, _ other: Int32) -> Bool {
        guard one > 0, other > 0, one != other else { return one > 0 && one == other }
        guard let leader = ProcessStatus(one)?.leader else { return false }
        return leader == ProcessStatus(other)?.leader
    }

    package static func exit(_ code: Int32) -> Never { Glibc.exit(code) }
}

/// Numbers of signals.
package enum SignalNumber {
    package static let hangUp = SIGHUP
    package static let interrupt = SIGINT
    package static let terminate = SIGTERM
}

extension ProcessHost {
    package static var groupID: UInt32 { getegid() }

    /// Disables the default action of these signals; interested code observes them in another way.
    package static func ignoreSignals(_ signals: [Int32]) { for number in signals { _ = signal(number, SIG_IGN) } }
}
