internal import UbiquityCore

/// Dates of header fields, as in RFC 9110 section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT".
enum HTTPDate {
    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    static func text(_ time: Timestamp) -> String {
        let seconds = max(0, time.seconds), day = seconds / 86_400
        let date = CivilTime.date(daysSince1970: day)
        // 1970 began on a Thursday.
        let weekday = days[Int((day + 4) % 7)], month = months[Int(date.month - 1)]
        let clock = CivilTime.text(seconds: seconds).split(separator: "T").last ?? ""
        return "\(weekday), \(padded(date.day)) \(month) \(date.year) \(clock) GMT"
    }

    /// Whole seconds since 1970. Nil for other forms, which a recipient may ignore.
    static func seconds(_ text: String) -> Int64? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", let day = Int64(parts[1]), (1...31).contains(day),
            let month = months.firstIndex(of: String(parts[2])), let year = Int64(parts[3]),
            (1970...9999).contains(year)
        else { return nil }
        let clock = parts[4].split(separator: ":").compactMap { Int64($0) }
        guard clock.count == 3, clock.allSatisfy({ (0...60).contains($0) }) else { return nil }
        return (days(year, Int64(month + 1)) + day - 1) * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    }

    /// Days from 1970 to the first of a month.
    private static func days(_ year: Int64, _ month: Int64) -> Int64 {
        // Years that begin in March, so that the leap day is their last.
        let shifted = month <= 2 ? year - 1 : year, fromMarch = (month + 9) % 12
        return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + (fromMarch * 153 + 2) / 5 - 719_468
    }

    private static func padded(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
