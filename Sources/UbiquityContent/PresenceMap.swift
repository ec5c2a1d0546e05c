internal import UbiquityCore

/// One bit per chunk: present or missing.
struct PresenceMap {
    private var words: [UInt64]
    private let count: Int
    private(set) var presentCount = 0
    private(set) var presentBytes: Int64 = 0

    init(count: Int) {
        self.count = count
        words = [UInt64](repeating: 0, count: (count + 63) / 64)
    }

    var isComplete: Bool { presentCount == count }

    func contains(_ index: Int) -> Bool { words[index >> 6] & (1 << UInt64(index & 63)) != 0 }

    func containsAll(_ indexes: Range<Int>) -> Bool { firstMissing(in: indexes) == nil }

    /// - Returns: false if it was present already.
    mutating func insert(_ index: Int, length: Int) -> Bool {
        guard !contains(index) else { return false }
        words[index >> 6] |= 1 << UInt64(index & 63)
        presentCount += 1
        presentBytes += Int64(length)
        return true
    }

    /// Skips whole words at once.
    func firstMissing(in indexes: Range<Int>) -> Int? {
        var index = indexes.lowerBound
        while index < indexes.upperBound {
            let missing = ~words[index >> 6] >> UInt64(index & 63)
            if missing != 0 {
                let found = index + missing.trailingZeroBitCount
                return found < indexes.upperBound ? found : nil
            }
            index = (index | 63) + 1
        }
        return nil
    }

    func missing(in indexes: Range<Int>, limit: Int) -> [Int] {
        var found = [Int]()
        var start = indexes.lowerBound
        while found.count < limit, let next = firstMissing(in: start..<indexes.upperBound) {
            found.append(next)
            start = next + 1
        }
        return found
    }
}
