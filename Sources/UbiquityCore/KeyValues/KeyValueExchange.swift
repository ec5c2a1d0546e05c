/// A set that waits to be sent.
package struct KeyValueChange: Hashable, Sendable {
    package var store: KeyValueStoreID
    package var key: KeyValueKey
    /// `entry.stamp.time` is by the device's clock, or final if `isFinal`.
    package var entry: KeyValueEntry
    /// The latest hybrid time that the device had seen before the set.
    package var seen: Int64
    /// Whether a cloud has decided about the time before. So it is sent again to a cloud whose data was replaced.
    package var isFinal: Bool

    package init(store: KeyValueStoreID, key: KeyValueKey, entry: KeyValueEntry, seen: Int64, isFinal: Bool = false) {
        self.store = store
        self.key = key
        self.entry = entry
        self.seen = seen
        self.isFinal = isFinal
    }
}

/// The sets that a device sends at one time.
package struct KeyValuePush: Hashable, Sendable {
    package var device: DeviceID
    /// By the device's clock: a difference beyond the delay is the error of that clock.
    package var sentAt: Timestamp
    package var changes: [KeyValueChange]

    package init(device: DeviceID, sentAt: Timestamp, changes: [KeyValueChange]) {
        self.device = device
        self.sentAt = sentAt
        self.changes = changes
    }
}

/// The result of one set at the cloud.
package struct KeyValueResult: Hashable, Sendable {
    package enum Outcome: String, Hashable, Sendable, CaseIterable {
        case applied
        /// A later set of another device is the current one.
        case superseded
        /// The store would exceed its limits. Nothing was changed.
        case refused
    }

    package var outcome: Outcome
    /// The key's record after the push; nil if it has none.
    package var record: KeyValueRecord?

    package init(outcome: Outcome, record: KeyValueRecord?) {
        self.outcome = outcome
        self.record = record
    }
}

/// A position in a container's feed of key-values.
package struct KeyValuePoint: Hashable, Sendable {
    package var revision: Revision
    /// The incarnation of the container's data; nil before the first contact.
    package var incarnation: UInt64?

    package init(revision: Revision = .zero, incarnation: UInt64? = nil) {
        self.revision = revision
        self.incarnation = incarnation
    }
}

/// Records changed after a point, in the order of their revisions.
package struct KeyValuePage: Hashable, Sendable {
    package var records: [KeyValueRecord]
    /// The position after this page.
    package var revision: Revision
    package var hasMore: Bool
    package var incarnation: UInt64
    /// Removals up to this revision may be forgotten. A device at an earlier one reads the feed from its beginning.
    package var forgotten: Revision

    package init(
        records: [KeyValueRecord], revision: Revision, hasMore: Bool, incarnation: UInt64, forgotten: Revision
    ) {
        self.records = records
        self.revision = revision
        self.hasMore = hasMore
        self.incarnation = incarnation
        self.forgotten = forgotten
    }
}
