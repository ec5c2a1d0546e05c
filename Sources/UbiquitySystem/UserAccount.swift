import Glibc

/// A user of this machine, as the user database has it.
package struct UserAccount: Hashable, Sendable {
    package var name: String
    package var user: UInt32
    package var group: UInt32
    package var home: String

    /// Bytes for an entry of the user database.
    private static let bufferSize = 16_384

    /// Returns nil if there is no such user.
    /// - Parameter text: a name, or a number.
    package static func named(_ text: String) throws(Errno) -> UserAccount? {
        var entry = passwd(), found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: bufferSize)
        var result = getpwnam_r(text, &entry, &buffer, buffer.count, &found)
        if found == nil, let number = uid_t(text) {
            result = getpwuid_r(number, &entry, &buffer, buffer.count, &found)
        }
        // Several errors mean "no such user" (getpwnam_r(3)).
        guard result == 0 || [ENOENT, ESRCH, EBADF, EPERM].contains(result) else { throw Errno(rawValue: result) }
        guard found != nil, let name = entry.pw_name, let home = entry.pw_dir else { return nil }
        return UserAccount(
            name: String(cString: name), user: entry.pw_uid, group: entry.pw_gid, home: String(cString: home))
    }

    /// Makes this process one of the user, for good: groups, user id, home, working directory. Only root may do so.
    package func become() throws(Errno) {
        _ = try check(initgroups(name, group))
        _ = try check(setgid(group))
        _ = try check(setuid(user))
        // The kernel allows root alone to undo this; a failure here would leave rights behind.
        guard setuid(0) != 0 || user == 0 else { throw .EPERM }
        for (variable, value) in [("HOME", home), ("USER", name), ("LOGNAME", name)] {
            _ = try check(setenv(variable, value, 1))
        }
        for variable in ["XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"] {
            _ = try check(unsetenv(variable))
        }
        try ProcessHost.setWorkingDirectory("/")
    }
}
