package import UbiquityCore

// Versions that this index has sent, until the cloud confirms them. The device in a version does not suffice. An index
// restored from a backup, or copied to another machine, meets versions of its own device that it does not know. Its
// local changes do not start from them.
extension IndexTransaction {
    /// Beyond this number the oldest count as never sent. They are edits whose answers were lost in a row; one that the
    /// cloud has accepted would become a conflict.
    private static let maximumSentVersions: Int64 = 10_000

    /// Records versions before they are sent.
    package func noteSent(_ versions: [VersionID]) throws {
        for version in versions {
            try execute("INSERT OR IGNORE INTO sentVersions (version) VALUES (?)", [SQLValue(version)])
        }
        guard !versions.isEmpty else { return }
        try execute(
            "DELETE FROM sentVersions WHERE number <= (SELECT max(number) FROM sentVersions) - ?",
            [.int(Self.maximumSentVersions)])
    }

    /// Deletes a version that the cloud has confirmed.
    package func forgetSent(_ version: VersionID) throws {
        try execute("DELETE FROM sentVersions WHERE version = ?", [SQLValue(version)])
    }
}

extension IndexReader {
    package func isSent(_ version: VersionID) throws -> Bool {
        try number("SELECT 1 FROM sentVersions WHERE version = ?", [SQLValue(version)]) != nil
    }
}
