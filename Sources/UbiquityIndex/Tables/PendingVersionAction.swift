package import UbiquityCore

/// A pending decision about a version.
package struct PendingVersionAction: Hashable, Sendable {
    /// The position in the queue.
    package var number: Int64
    package var item: ItemID
    package var version: VersionID
    package var kind: Kind
    /// The id of the version that a restoration creates. It is drawn with the decision, so that a retry sends the same
    /// version.
    package var newVersion: VersionID?
    package var decidedAt: Timestamp
    /// The version that a restoration replaces: the one the file showed at the decision; for a conflict version, the
    /// current one.
    package var base: VersionID?
    /// The row's generation at the decision. A different one shows a later local edit.
    package var generation: Int64?

    /// The numbers are stored.
    package enum Kind: Int64, Hashable, Sendable {
        case resolve = 1
        case remove = 2
        case restore = 3
    }
}
