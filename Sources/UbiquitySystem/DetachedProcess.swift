import CUbiquityShims
import Glibc
import UbiquityCore

/// Starts a process that goes on by itself: in a session of its own, with "/" as its working directory, and with no
/// file of ours but those named. (Never fork: a Swift process has threads.)
package enum DetachedProcess {
    /// The descriptor under which the new process finds the pipe it reports on.
    package static let reportDescriptor: Int32 = 3

    /// - Parameters:
    ///   - log: Where its standard output and error go.
    ///   - report: Becomes `reportDescriptor` there.
    /// - Returns: its process id. When it ends it must be waited for (`reap`), or stays as a zombie until we end.
    package static func start(
        _ executable: String, _ arguments: [String], log: FileDescriptor, report: FileDescriptor? = nil
    ) throws(Errno) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        _ = posix_spawn_file_actions_init(&actions)
        defer { _ = posix_spawn_file_actions_destroy(&actions) }
        _ = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        _ = posix_spawn_file_actions_adddup2(&actions, log.rawValue, 1)
        _ = posix_spawn_file_actions_adddup2(&actions, log.rawValue, 2)
        if let report { posix_spawn_file_actions_adddup2(&actions, report.rawValue, reportDescriptor) }
        _ = CUbiquity_spawnActionsCloseFrom(&actions, report == nil ? reportDescriptor : reportDescriptor + 1)
        _ = CUbiquity_spawnActionsChangeDirectory(&actions, "/")
        var attributes = posix_spawnattr_t()
        _ = posix_spawnattr_init(&attributes)
        defer { _ = posix_spawnattr_destroy(&attributes) }
        _ = posix_spawnattr_setflags(&attributes, Int16(CUbiquity_POSIX_SPAWN_SETSID))
        var process: pid_t = 0
        let failure = withCStrings(arguments) { arguments in
            withCStrings(ProcessHost.environment) { environment in
                posix_spawn(&process, executable, &actions, &attributes, arguments, environment)
            }
        }
        guard failure == 0 else { throw Errno(rawValue: failure) }
        return process
    }

    /// The state of a process that was started here: nil while it runs, else its wait status. To be asked once more
    /// after it ended would be ECHILD, which also reads as ended.
    package static func reap(_ process: Int32) -> Int32? {
        var status: Int32 = 0
        let result = waitpid(process, &status, WNOHANG)
        if result == 0 { return nil }
        return result == process ? status : 0
    }

    private static func withCStrings<R>(
        _ texts: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> R
    ) -> R {
        var pointers = texts.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { buffer in
            guard let start = buffer.baseAddress else { return body(UnsafeMutablePointer.allocate(capacity: 1)) }
            return body(start)
        }
    }
}
