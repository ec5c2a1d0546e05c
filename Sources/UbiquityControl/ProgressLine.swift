import UbiquityCore

/// The progress of a transfer as one line of text: a bar, bytes, rate and remaining time.
///
/// The total may grow while the transfer runs, because more items join it. The rate is the mean since the first sample.
package struct ProgressLine: Hashable, Sendable {
    /// The action, for example "downloading".
    private let doing: String
    private var total: Int64 = 0
    private var remaining: Int64 = 0
    private var startedAt: Double?
    private var now = 0.0

    /// In seconds before a rate is shown: the mean of a shorter time predicts nothing.
    private static let rateDelay = 1.0
    private static let barWidth = 20
    /// Longest remaining time that is shown, in seconds.
    private static let longestRemainingTime = 359_999.0

    package init(_ doing: String) { self.doing = doing }

    /// Records how many bytes remain.
    /// - Parameter time: in seconds, on any clock that does not run backwards.
    package mutating func record(remaining: Int64, at time: Double) {
        if startedAt == nil { startedAt = time }
        let done = total - self.remaining
        self.remaining = max(0, remaining)
        // A larger remainder means that items were added. Bytes already transferred stay counted.
        total = max(total, done + self.remaining)
        now = time
    }

    /// The line, or nil before the first bytes have moved.
    package var text: String? {
        let done = total - remaining
        guard done > 0 else { return nil }
        let share = Double(done) / Double(total)
        let filled = Int(share * Double(Self.barWidth))
        let bar = String(repeating: "#", count: filled) + String(repeating: "-", count: Self.barWidth - filled)
        var parts = [
            "\(doing) [\(bar)] \(Int(share * 100)) %", "\(ByteSize.text(done)) of \(ByteSize.text(total))",
        ]
        if let rate {
            parts.append("\(ByteSize.text(Int64(rate)))/s")
            let left = Double(remaining) / rate
            if remaining > 0, left <= Self.longestRemainingTime { parts.append("\(Self.duration(left)) left") }
        }
        return parts.joined(separator: "  ")
    }

    /// Bytes per second since the first sample; nil while unknown.
    private var rate: Double? {
        guard let startedAt, now - startedAt >= Self.rateDelay, total > remaining else { return nil }
        return Double(total - remaining) / (now - startedAt)
    }

    /// "42 s", "3 min 20 s", "2 h 5 min".
    private static func duration(_ seconds: Double) -> String {
        let whole = Int(seconds.rounded(.up))
        switch whole {
        case ..<60: return "\(whole) s"
        case ..<3600: return "\(whole / 60) min \(whole % 60) s"
        default: return "\(whole / 3600) h \(whole % 3600 / 60) min"
        }
    }
}
