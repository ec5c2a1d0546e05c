/// How long a cloud keeps deleted items and old versions. An unresolved conflict is always kept.
package struct KeepingRules: Hashable, Sendable {
    /// Deleted items, in seconds since the deletion.
    package var trashSeconds: Double
    /// Earlier versions and resolved conflicts, in seconds since they were replaced or resolved.
    package var historySeconds: Double
    /// Largest number of these versions per item: beyond that, those replaced first are dropped.
    package var versionsPerItem: Int

    package static let standard = KeepingRules(
        trashSeconds: 30 * 86_400, historySeconds: 30 * 86_400, versionsPerItem: 100)

    package init(trashSeconds: Double, historySeconds: Double, versionsPerItem: Int) {
        self.trashSeconds = trashSeconds
        self.historySeconds = historySeconds
        self.versionsPerItem = versionsPerItem
    }
}
