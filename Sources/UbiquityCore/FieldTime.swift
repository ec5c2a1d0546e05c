/// The time at which one of an item's fields was changed. If two devices change an item, the later change of each field
/// wins, regardless of other fields.
package struct FieldTime: Hashable, Sendable {
    package var field: Field
    /// By the clock of the device that made the change.
    package var time: Timestamp

    package enum Field: Hashable, Sendable {
        case place
        case mode
        case times
        case content
        /// An extended attribute, by its name.
        case xattr([UInt8])
    }

    package init(_ field: Field, at time: Timestamp) {
        self.field = field
        self.time = time
    }
}

extension [FieldTime] {
    package subscript(field: FieldTime.Field) -> Timestamp? { first { $0.field == field }?.time }
}
