import UbiquityCore

/// Times in a query: "2026-11-20", "2026-11-20T10:11:12Z", "now", "now-7d", "-12h".
package enum QueryMoment {
    /// The times that can be written: from the first second of the year 1 to the last of 9999.
    private static let range = -62_135_596_800.0...253_402_300_799.0

    /// The nearest time that can be written.
    static func clamped(_ seconds: Double) -> Double {
        seconds.isNaN ? 0 : min(max(seconds, range.lowerBound), range.upperBound)
    }

    /// Seconds since 1970-01-01 UTC; nil if the text is not a time.
    package static func seconds(_ text: String, now: Double) -> Double? { moment(text, now: now).map(clamped) }

    private static func moment(_ text: String, now: Double) -> Double? {
        let text = text.lowercased()
        if text == "now" { return now }
        let rest = text.hasPrefix("now") ? text.dropFirst(3) : text[...]
        if let sign = rest.first, sign == "-" || sign == "+" {
            guard let unit = rest.last.flatMap({ TimeSpan.units[$0] }),
                let number = number(rest.dropFirst().dropLast())
            else { return nil }
            return sign == "-" ? now - number * unit : now + number * unit
        }
        return date(text)
    }

    private static func date(_ text: String) -> Double? {
        let parts = text.split(separator: "t", omittingEmptySubsequences: false)
        guard parts.count <= 2, let day = day(parts[0]) else { return nil }
        guard parts.count == 2 else { return day }
        var clock = parts[1]
        if clock.hasSuffix("z") { clock.removeLast() }
        let fields = clock.split(separator: ":", omittingEmptySubsequences: false).map(number)
        guard (2...3).contains(fields.count), let hour = fields[0], let minute = fields[1] else { return nil }
        guard let second = fields.count == 3 ? fields[2] : 0, hour < 24, minute < 60, second < 61 else { return nil }
        return day + hour * 3600 + minute * 60 + second
    }

    private static func day(_ text: Substring) -> Double? {
        let fields = text.split(separator: "-", omittingEmptySubsequences: false)
        guard fields.count == 3, fields[0].count == 4, fields.allSatisfy({ $0.allSatisfy(\.isASCII) }),
            let year = Int64(fields[0]), let month = Int64(fields[1]), let day = Int64(fields[2]),
            year > 0, (1...12).contains(month), (1...31).contains(day)
        else { return nil }
        // Counted in years that begin in March, so that the leap day is the last day.
        let shifted = month <= 2 ? year - 1 : year
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
        // Rejects a day that the month does not have.
        let back = CivilTime.date(daysSince1970: days)
        guard back == (year, month, day) else { return nil }
        return Double(days) * 86_400
    }

    private static func number(_ text: Substring) -> Double? {
        guard let first = text.first, first.isASCII, first.isNumber,
            text.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") })
        else { return nil }
        return Double(text)
    }
}

extension QueryValue {
    /// The nearest time that a query's text can express.
    package static func moment(_ seconds: Double) -> QueryValue { .time(QueryMoment.clamped(seconds)) }
}

extension QueryMoment {
    /// To the nanosecond, the precision of file times.
    static func text(_ seconds: Double) -> String {
        let seconds = clamped(seconds)
        let whole = seconds.rounded(.down)
        // Just before a whole second the product may round up to it.
        let fraction = String(min(Int64((seconds - whole) * 1e9), 999_999_999))
        let clock = CivilTime.text(seconds: Int64(whole))
        return "\(clock).\(String(repeating: "0", count: 9 - fraction.count))\(fraction)Z"
    }
}
