package import UbiquityCore

// Which versions this index has sent, until it hears that the cloud has them. A version's device does not tell:
// an index that was put back from a backup, or copied to another machine, meets versions of its own device that it
// knows nothing of, and what was changed here was not made from these.
extension IndexTransaction {
    /// Of more than these the oldest count as never sent: edits whose answers were lost in a row, of which one that the
    /// cloud has taken would be a conflict.
    private static let maximumSentVersions: Int64 = 10_000

    /// To be called before they are sent.
    package func noteSent(_ versions: [VersionID]) throws {
        for version in versions {
            try execute("INSERT OR IGNORE INTO sentVersions (version) VALUES (?)", [SQLValue(version)])
        }
        guard !versions.isEmpty else { return }
        try execute(
            "DELETE FROM sentVersions WHERE number <= (SELECT max(number) FROM sentVersions) - ?",
            [.int(Self.maximumSentVersions)])
    }

    /// The index has heard that the cloud has it.
    package func forgetSent(_ version: VersionID) throws {
        try execute("DELETE FROM sentVersions WHERE version = ?", [SQLValue(version)])
    }
}

extension IndexReader {
    package func isSent(_ version: VersionID) throws -> Bool {
        try number("SELECT 1 FROM sentVersions WHERE version = ?", [SQLValue(version)]) != nil
    }
}
