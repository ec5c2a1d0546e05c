package import UbiquityCore

/// Rows with an unreadable list of attributes or chunks.
package struct DamagedFields: Sendable {
    /// Rows of the local tree.
    package var items: [ItemKey] = []
    /// The cloud's records.
    package var records: [ItemID] = []
}
