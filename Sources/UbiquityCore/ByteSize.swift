/// Sizes as people write them.
package enum ByteSize {
    /// Parses "512", "10G", "1.5GiB", "64 MB" into bytes. K, M, G, T, P alone or with "iB" are powers of 1024, with "B"
    /// powers of 1000, as with coreutils.
    ///
    /// - Throws: `.invalid` for anything else, and for sizes beyond 63 bits.
    package static func parse(_ text: String) throws(UbiquityError) -> Int64 {
        let wrong = UbiquityError(.invalid, "not a size: \"\(text)\"", remedy: "write for example 512M, 10G or 1.5GiB")
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        let unit = text[digits.endIndex...].drop { $0 == " " }
        guard let number = Double(digits), let factor = factor(of: unit.lowercased()) else { throw wrong }
        let bytes = (number * factor).rounded()
        guard bytes < 9.2e18 else { throw wrong }
        return Int64(bytes)
    }

    private static func factor(of unit: String) -> Double? {
        if unit.isEmpty || unit == "b" { return 1 }
        guard let first = unit.first, let power = ["k": 1, "m": 2, "g": 3, "t": 4, "p": 5][first] else { return nil }
        let base: Double
        switch unit.dropFirst() {
        case "", "ib": base = 1024
        case "b": base = 1000
        default: return nil
        }
        return (0..<power).reduce(1) { factor, _ in factor * base }
    }

    /// Formats a size as "1.5 MiB": at most three digits, with one decimal below ten.
    package static func text(_ bytes: Int64) -> String {
        guard bytes >= 1024 else { return "\(bytes) B" }
        var value = Double(bytes)
        var unit = -1
        let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
        while value >= 1023.5, unit < units.count - 1 {
            value /= 1024
            unit += 1
        }
        let tenths = (value * 10).rounded() / 10
        return (tenths < 10 ? "\(tenths)" : "\(Int64(value.rounded()))") + " \(units[unit])"
    }
}
