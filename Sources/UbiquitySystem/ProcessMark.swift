import Glibc

/// An environment variable that tells others how to treat a program and its children.
package struct ProcessMark: Sendable {
    /// Reading a file without local content fails instead of downloading it.
    package static let downloadsNothing = ProcessMark(variable: "UBIQUITY_NO_MATERIALIZE")

    /// Maximum bytes of an environment that are read: the kernel's default limit for a program.
    private static let maximumEnvironment = 2 << 20

    package let variable: String

    /// Whether this process was started with the variable.
    package var isOnHere: Bool { getenv(variable).map { $0.pointee != 0 } ?? false }

    /// Returns whether the process was started with a non-empty value. False if the process has ended, or this user may
    /// not read its environment.
    package func isOn(_ process: Int32) -> Bool {
        guard let environment = try? SmallFile.read("/proc/\(process)/environ", limit: Self.maximumEnvironment) else {
            return false
        }
        let start = Array("\(variable)=".utf8)
        return environment.split(separator: 0).contains { $0.starts(with: start) && $0.count > start.count }
    }
}
