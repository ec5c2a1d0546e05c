package import UbiquityCore

/// Contents that an eviction keeps on this device although it could remove them.
package struct KeptContents: Sendable, Hashable {
    /// Contents of at most this many bytes stay.
    package var size: Int64
    /// A content requested by the user stays if it was used at this time or later.
    package var requestedSince: Timestamp

    package static let none = KeptContents(size: 0, requestedSince: Timestamp(nanoseconds: .max))

    package init(size: Int64, requestedSince: Timestamp) {
        self.size = size
        self.requestedSince = requestedSince
    }

    /// The values in the order of the statements.
    var values: [SQLValue] { [.int(size), .int(requestedSince.nanoseconds)] }
}
