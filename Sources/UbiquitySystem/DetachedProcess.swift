import CUbiquityShims
import Glibc
import UbiquityCore

/// Starts a process that runs independently: in its own session, with "/" as its working directory, and only with the
/// named files open. It never uses fork, because a Swift process has threads.
package enum DetachedProcess {
    /// The descriptor on which the new process finds its report pipe.
    package static let reportDescriptor: Int32 = 3

    /// Processes started here that are not known to have ended.
    private static let running = Lock<Set<Int32>>([])

    /// Starts the process.
    ///
    /// - Parameters:
    ///   - log: The target of its standard output and error.
    ///   - report: Becomes `reportDescriptor` in the process.
    /// - Returns: The process id.
    package static func start(
        _ executable: String, _ arguments: [String], log: FileDescriptor, report: FileDescriptor? = nil
    ) throws(Errno) -> Int32 {
        let process = try spawn(executable, arguments, folder: "/", log: log, report: report)
        startReaper(of: process)
        return process
    }

    /// Starts a process that leads its own session and process group. The caller waits for it.
    package static func spawn(
        _ executable: String, _ arguments: [String], folder: String, log: FileDescriptor, report: FileDescriptor?
    ) throws(Errno) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        _ = posix_spawn_file_actions_init(&actions)
        defer { _ = posix_spawn_file_actions_destroy(&actions) }
        _ = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        _ = posix_spawn_file_actions_adddup2(&actions, log.rawValue, 1)
        _ = posix_spawn_file_actions_adddup2(&actions, log.rawValue, 2)
        if let report { _ = posix_spawn_file_actions_adddup2(&actions, report.rawValue, reportDescriptor) }
        _ = CUbiquity_spawnActionsCloseFrom(&actions, report == nil ? reportDescriptor : reportDescriptor + 1)
        _ = CUbiquity_spawnActionsChangeDirectory(&actions, folder)
        var attributes = posix_spawnattr_t()
        _ = posix_spawnattr_init(&attributes)
        defer { _ = posix_spawnattr_destroy(&attributes) }
        // Ignored signals and the signal mask would be inherited.
        var signals = sigset_t()
        sigfillset(&signals)
        _ = posix_spawnattr_setsigdefault(&attributes, &signals)
        sigemptyset(&signals)
        _ = posix_spawnattr_setsigmask(&attributes, &signals)
        let flags = Int32(CUbiquity_POSIX_SPAWN_SETSID) | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK
        _ = posix_spawnattr_setflags(&attributes, Int16(flags))
        var texts: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for text in texts { free(text) } }
        var process: pid_t = 0
        CoreBinding.release()
        let failure = posix_spawn(&process, executable, &actions, &attributes, &texts, environ)
        guard failure == 0 else { throw Errno(rawValue: failure) }
        return process
    }

    /// Returns whether a process started here still runs.
    package static func isRunning(_ process: Int32) -> Bool { running.withLock { $0.contains(process) } }

    /// Starts a thread that waits for the process, so that its end is known and no zombie stays.
    private static func startReaper(of process: Int32) {
        running.withLock { _ = $0.insert(process) }
        var thread = pthread_t()
        let argument = UnsafeMutableRawPointer(bitPattern: Int(process))
        guard pthread_create(&thread, nil, reap, argument) == 0 else { return }
        pthread_detach(thread)
    }

    fileprivate static func hasEnded(_ process: Int32) { running.withLock { _ = $0.remove(process) } }
}

private func reap(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    CUbiquity_nameThread("reaper")
    let process = pid_t(Int(bitPattern: argument))
    while waitpid(process, nil, 0) == -1, errno == EINTR {}
    DetachedProcess.hasEnded(process)
    return nil
}
