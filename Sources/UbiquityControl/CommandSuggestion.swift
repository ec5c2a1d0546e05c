/// Suggests the most likely name for a mistyped word.
package enum CommandSuggestion {
    /// Edits between a mistyped word and the suggestion: two cover a swapped pair of letters.
    private static let maximumDistance = 2
    /// A longer word is no mistyped command.
    private static let maximumLength = 32

    /// The nearest of `names`, or nil if none is near. The first of several equally near names wins.
    package static func nearest(to word: String, among names: [String]) -> String? {
        let typed = Array(word.lowercased().utf8)
        guard !typed.isEmpty, typed.count <= maximumLength else { return nil }
        let ranked = names.map { (name: $0, distance: distance(typed, Array($0.utf8))) }
        guard let best = ranked.min(by: { $0.distance < $1.distance }), best.distance <= maximumDistance,
            best.distance < typed.count
        else { return nil }
        return best.name
    }

    /// The Levenshtein distance: insertions, deletions and replacements of one byte.
    private static func distance(_ one: [UInt8], _ other: [UInt8]) -> Int {
        var row = Array(0...other.count)
        for (line, byte) in one.enumerated() {
            var diagonal = row[0]
            row[0] = line + 1
            for (column, candidate) in other.enumerated() {
                let replaced = diagonal + (byte == candidate ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(replaced, row[column] + 1, diagonal + 1)
            }
        }
        return row[other.count]
    }
}
