/// Sets how much a mount's daemon writes to its log, until it ends.
package struct LogRequest: Codable, Hashable, Sendable {
    /// The least important level that is written: "trace", "debug", "info", "notice", "warning", "error" or "critical".
    /// Nil leaves it unchanged.
    package var level: String?
    package init(level: String?) { self.level = level }
}

package struct LogReport: Codable, Hashable, Sendable {
    package var level: String
    /// The log's path; nil if the daemon writes to a terminal.
    package var file: String?

    package init(level: String, file: String?) {
        self.level = level
        self.file = file
    }
}
