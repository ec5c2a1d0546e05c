/// Lengths of time as people write them: "90s", "15m", "12h", "30d", "4w".
package enum TimeSpan {
    package static let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
    /// A hundred years. A longer time means for ever.
    private static let longest = 100 * 365.25 * 86_400

    /// Seconds; nil if the text is not a length of time.
    package static func seconds(_ text: String) -> Double? {
        guard let unit = text.last.flatMap({ units[$0] }) else { return nil }
        let number = text.dropLast()
        guard let first = number.first, first.isASCII, first.isNumber,
            number.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), let value = Double(number)
        else { return nil }
        return min(value * unit, longest)
    }
}
