/// How long a cloud keeps what nobody sees any more. An unresolved conflict is always kept.
package struct KeepingRules: Hashable, Sendable {
    /// Deleted items, in seconds since the deletion.
    package var trashSeconds: Double
    /// Earlier versions and resolved conflicts, in seconds since they were replaced or resolved.
    package var historySeconds: Double
    /// Of those, at most that many of one item: beyond, the ones that were replaced first go.
    package var versionsPerItem: Int

    package static let standard = KeepingRules(
        trashSeconds: 30 * 86_400, historySeconds: 30 * 86_400, versionsPerItem: 100)

    package init(trashSeconds: Double, historySeconds: Double, versionsPerItem: Int) {
        self.trashSeconds = trashSeconds
        self.historySeconds = historySeconds
        self.versionsPerItem = versionsPerItem
    }
}
