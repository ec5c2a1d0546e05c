/// Times as text, in UTC.
package enum CivilTime {
    /// "2026-11-20T10:11:12.345Z".
    package static func text(_ time: Timestamp) -> String {
        let millisecond = padded(time.subsecondNanoseconds / 1_000_000, 3)
        return "\(text(seconds: time.seconds, separator: ":")).\(millisecond)Z"
    }

    /// "2026-11-20T10.11.12Z", for file names: many programs give the colon a meaning.
    package static func name(_ time: Timestamp) -> String { text(seconds: time.seconds, separator: ".") + "Z" }

    /// "2026-11-20T10:11:12", also for times outside a timestamp's range.
    package static func text(seconds: Int64) -> String { text(seconds: seconds, separator: ":") }

    private static func text(seconds: Int64, separator: String) -> String {
        let (days, second) = floorDivide(seconds, 86_400)
        let (year, month, day) = date(daysSince1970: days)
        let clock = [second / 3600, second / 60 % 60, second % 60].map { padded($0, 2) }.joined(separator: separator)
        return "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))T\(clock)"
    }

    /// Returns the Gregorian date. It counts in years that begin in March, so that the leap day is their last.
    package static func date(daysSince1970 days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = days + 719_468
        let (era, dayOfEra) = floorDivide(shifted, 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func floorDivide(_ number: Int64, _ divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = number.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
