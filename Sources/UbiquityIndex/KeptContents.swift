package import UbiquityCore

/// Contents that an eviction leaves on this device although it could take them.
package struct KeptContents: Sendable, Hashable {
    /// Contents of at most that many bytes stay.
    package var size: Int64
    /// A content that a person has asked for stays if it was used at that time or later.
    package var requestedSince: Timestamp

    package static let none = KeptContents(size: 0, requestedSince: Timestamp(nanoseconds: .max))

    package init(size: Int64, requestedSince: Timestamp) {
        self.size = size
        self.requestedSince = requestedSince
    }

    /// As statements take them.
    var values: [SQLValue] { [.int(size), .int(requestedSince.nanoseconds)] }
}
