import UbiquityCore
import UbiquitySystem

/// Colours and times in results: readable on a terminal, plain and exact elsewhere.
enum TerminalStyle {
    enum Colour: String, CaseIterable {
        case red = "31"
        case green = "32"
        case yellow = "33"
    }

    private static let isTerminal = ProcessHost.isTerminal(1)
    /// See no-color.org: any value turns colours off.
    private static let hasColours =
        isTerminal && ProcessHost.variable("NO_COLOR") == nil && ProcessHost.variable("TERM") != "dumb"

    static func coloured(_ text: String, _ colour: Colour) -> String {
        hasColours ? "\(start(colour))\(text)\(end)" : text
    }

    private static let end = "\u{1B}[0m"
    private static func start(_ colour: Colour) -> String { "\u{1B}[\(colour.rawValue)m" }

    /// All sequences that `coloured` may write; empty without colours.
    static let sequences: [String] = hasColours ? Colour.allCases.map(start) + [end] : []

    /// A time in local time on a terminal, in UTC and ISO 8601 elsewhere.
    static func time(_ seconds: Double) -> String {
        let time = Timestamp(seconds: seconds)
        return isTerminal ? LocalTime.text(time) : "\(CivilTime.text(seconds: time.seconds))Z"
    }
}
