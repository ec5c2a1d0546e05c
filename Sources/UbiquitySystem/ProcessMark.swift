import Glibc

/// A variable in the environment of a program, by which others know how it, and what it starts, is to be treated.
package struct ProcessMark: Sendable {
    /// What it reads of files whose content is not here fails, and downloads nothing.
    package static let downloadsNothing = ProcessMark(variable: "UBIQUITY_NO_MATERIALIZE")

    /// Bytes of an environment that are looked at: the most that the kernel gives a program by default.
    private static let maximumEnvironment = 2 << 20

    package let variable: String

    /// Whether this process was started with it.
    package var isOnHere: Bool { getenv(variable).map { $0.pointee != 0 } ?? false }

    /// Whether the process was started with a value for it that is not empty. False for one that has ended, or whose
    /// environment this user may not see.
    package func isOn(_ process: Int32) -> Bool {
        guard let environment = try? SmallFile.read("/proc/\(process)/environ", limit: Self.maximumEnvironment) else {
            return false
        }
        let start = Array("\(variable)=".utf8)
        return environment.split(separator: 0).contains { $0.starts(with: start) && $0.count > start.count }
    }
}
