/// Which bytes of a file are worth reading along when a page of it has come from the disk.
///
/// A walk over items meets pages of a table and of its indexes in turn, all in one neighbourhood. The kernel reads
/// along only where pages follow each other, so it would bring each of these by itself. Whether the next one lies near
/// is a guess: one page alone brings nothing along, the second one of a neighbourhood does.
struct NearbyReads {
    /// What comes from the kernel's memory takes less (2 us measured); what comes from a fast disk more (35 us).
    static let slow = Duration.microseconds(12)
    /// Bytes that are read along, at first and at most; how far from the last page the next one is near.
    static let firstSpan: Int64 = 32 << 10, maximumSpan: Int64 = 128 << 10
    /// Each time that more was asked for, so many times as much is read along.
    static let growth: Int64 = 4
    /// Neighbourhoods that are remembered.
    static let capacity = 4

    private struct Neighbourhood {
        /// What was read along: empty at the page that came first.
        var read: Range<Int64>

        func isNear(_ offset: Int64) -> Bool {
            let reach = max(Int64(read.count), firstSpan)
            return offset >= read.lowerBound - reach && offset < read.upperBound + reach
        }
    }

    /// The one met last comes first.
    private var known: [Neighbourhood] = []

    /// A page came from the disk.
    /// - Parameter offset: where it begins, bytes.
    /// - Returns: what to read along, from there on; nil if nothing.
    mutating func note(slowReadAt offset: Int64) -> Range<Int64>? {
        var read = offset..<offset
        if let index = known.firstIndex(where: { $0.isNear(offset) }) {
            let last = Int64(known.remove(at: index).read.count)
            read = offset..<offset + min(max(last * Self.growth, Self.firstSpan), Self.maximumSpan)
        } else if known.count == Self.capacity {
            known.removeLast()
        }
        known.insert(Neighbourhood(read: read), at: 0)
        return read.isEmpty ? nil : read
    }
}
