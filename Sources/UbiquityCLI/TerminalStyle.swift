import UbiquityCore
import UbiquitySystem

/// Colours and times of results: for a person on a terminal, plain and exact elsewhere.
enum TerminalStyle {
    enum Colour: String {
        case red = "31"
        case green = "32"
        case yellow = "33"
    }

    private static let isTerminal = ProcessHost.isTerminal(1)
    /// See no-color.org: any value turns colours off.
    private static let hasColours =
        isTerminal && ProcessHost.variable("NO_COLOR") == nil && ProcessHost.variable("TERM") != "dumb"

    static func coloured(_ text: String, _ colour: Colour) -> String {
        hasColours ? "\u{1B}[\(colour.rawValue)m\(text)\u{1B}[0m" : text
    }

    /// A moment in local time on a terminal, in UTC and ISO 8601 elsewhere.
    static func time(_ seconds: Double) -> String {
        let time = Timestamp(seconds: seconds)
        return isTerminal ? LocalTime.text(time) : "\(CivilTime.text(seconds: time.seconds))Z"
    }
}
