internal import UbiquityCore

/// A `Range` field that cannot be served: answered with 416.
struct RefusedRange: Error {
    let reason: String
}

/// Parses a `Range` field for a chunk: one range of bytes, as in RFC 9110 section 14.1.2.
enum ChunkRange {
    /// - Returns: nil if the field has another unit, which is ignored.
    /// - Throws: `RefusedRange` for several ranges, a malformed one, or one beyond the end.
    static func parse(_ field: String, length: Int) throws -> Range<Int>? {
        guard let equals = field.firstIndex(of: "=") else { throw RefusedRange(reason: "the range has no unit") }
        guard field[..<equals].lowercased() == "bytes" else { return nil }
        let text = field[field.index(after: equals)...]
        guard !text.contains(",") else { throw RefusedRange(reason: "only one range is supported") }
        let bounds = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard bounds.count == 2, let first = number(bounds[0]), let last = number(bounds[1]) else {
            throw RefusedRange(reason: "the range is malformed")
        }
        let range: Range<Int>
        switch (first, last) {
        case (nil, nil): throw RefusedRange(reason: "the range is malformed")
        case (nil, let count?): range = max(0, length - count)..<length
        case (let start?, nil): range = start..<max(start, length)
        case (let start?, let end?):
            guard start <= end else { throw RefusedRange(reason: "the range ends before it begins") }
            range = start..<max(start, min(end, length - 1) + 1)
        }
        guard !range.isEmpty, range.upperBound <= length else {
            throw RefusedRange(reason: "the range is beyond the chunk's \(length) bytes")
        }
        return range
    }

    /// The number; an inner nil for no digits, an outer nil for anything else.
    private static func number(_ text: Substring) -> Int?? {
        if text.isEmpty { return .some(nil) }
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), text.utf8.count <= 12,
            let number = Int(text)
        else { return nil }
        return .some(number)
    }
}
