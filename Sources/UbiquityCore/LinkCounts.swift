/// The numbers of links as bytes, in messages and in a device's index: an id and a number for each item.
package enum LinkCounts {
    private static let entryLength = 20
    /// Items in one message. A cloud allows fewer links.
    private static let maximumItems = 65_536

    package static func encode(_ counts: [ItemID: Int]) -> [UInt8] {
        counts.sorted { $0.key < $1.key }.flatMap { id, count in
            let number = UInt32(clamping: count)
            return id.bytes + [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
        }
    }

    /// - Throws: `.invalid` if the bytes are malformed.
    package static func decode(_ bytes: [UInt8]) throws(UbiquityError) -> [ItemID: Int] {
        guard bytes.count.isMultiple(of: entryLength), bytes.count / entryLength <= maximumItems else {
            throw UbiquityError(.invalid, "the numbers of links are malformed")
        }
        var counts: [ItemID: Int] = [:]
        for start in stride(from: 0, to: bytes.count, by: entryLength) {
            let number = bytes[start + 16..<start + entryLength].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            guard let id = ItemID(bytes: Array(bytes[start..<start + 16])), number > 0 else {
                throw UbiquityError(.invalid, "the numbers of links are malformed")
            }
            counts[id] = Int(number)
        }
        return counts
    }
}
