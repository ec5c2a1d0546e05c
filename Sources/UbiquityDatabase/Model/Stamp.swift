/// A device that writes a database. The number is random, so no two devices have the same one.
package struct DeviceID: Hashable, Comparable, Sendable {
    package let number: UInt64

    package init(_ number: UInt64) { self.number = number }

    package static func < (left: DeviceID, right: DeviceID) -> Bool { left.number < right.number }
}

/// The time of a transaction on any device: a hybrid logical time, then the device. Two transactions never have the
/// same stamp, and a transaction has a later stamp than every transaction that its device had imported before.
package struct Stamp: Hashable, Comparable, Sendable {
    /// Milliseconds since 1970 in the upper 48 bits, a counter in the lower 16.
    package var time: UInt64
    package var device: DeviceID

    /// The stamp of rows that a migration made: earlier than all others, and the same on every device.
    package static let migration = Stamp(0, DeviceID(0))

    package init(_ time: UInt64, _ device: DeviceID) {
        self.time = time
        self.device = device
    }

    package static func < (left: Stamp, right: Stamp) -> Bool {
        (left.time, left.device) < (right.time, right.device)
    }
}
