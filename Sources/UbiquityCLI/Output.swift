import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Prints results to standard output and messages to standard error.
enum Output {
    /// Prints one line of a result. Whatever it contains, it stays one line, and the only terminal sequences in it are
    /// colours.
    static func line(_ text: String) {
        ProcessHost.write(PlainText.escaped(text, keeping: TerminalStyle.sequences) + "\n", to: 1)
    }

    /// Prints one line of JSON. The encoder escapes control characters but not direction marks and the like.
    private static func jsonLine(_ bytes: [UInt8], to descriptor: Int32 = 1) {
        ProcessHost.write(PlainText.escapedJSON(String(decoding: bytes, as: UTF8.self)) + "\n", to: descriptor)
    }

    /// Prints several lines, for example a help text.
    static func page(_ text: String, to descriptor: Int32 = 1) {
        ProcessHost.write(PlainText.escapedLines(text) + "\n", to: descriptor)
    }

    /// Foreign text on one line, without terminal sequences.
    static func shown(_ text: String) -> String { PlainText.escaped(text) }

    /// One result as JSON on one line.
    static func json(_ value: some Encodable) throws(UbiquityError) {
        jsonLine(try ControlCodec.encode(value))
    }

    /// Whether the command line asks for JSON. Messages and errors are JSON then too, one object a line.
    static let isJSON = ProcessHost.arguments.prefix { $0 != "--" }.contains("--json")

    private struct Message: Encodable {
        var message: String
    }

    private struct Failure: Encodable {
        var error: ControlFailure
        /// The failed path on the command line, or below it; nil if the whole command failed.
        var path: String?
    }

    /// Prints a message for the user, in the form usual for Unix commands.
    static func message(_ text: String) {
        if isJSON { return jsonMessage(Message(message: text)) }
        ProcessHost.write("ubiquity: \(shown(text))\n", to: 2)
    }

    /// Prints an error, with its path if the command continues with others.
    static func error(_ error: UbiquityError, about path: String? = nil) {
        if isJSON { return jsonMessage(Failure(error: ControlFailure(error), path: path)) }
        message((path.map { "\($0): " } ?? "") + error.description)
    }

    private static func jsonMessage(_ value: some Encodable) {
        // Texts and numbers can always be encoded as JSON.
        guard let bytes = try? ControlCodec.encode(value) else { return }
        jsonLine(bytes, to: 2)
    }

    /// Prints a list of messages, at most a screenful.
    static func messages(_ lines: [String]) {
        for line in lines.prefix(longestList) { message(line) }
        if lines.count > longestList { message("… and more; 'ubiquity status' shows them") }
    }

    private static let longestList = 20

    /// "1 item", "3 items".
    static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }

    /// "12 items, 3.4 MiB".
    static func total(_ total: TransferTotal) -> String {
        count(total.items, "item") + (total.bytes > 0 ? ", \(ByteSize.text(total.bytes))" : "")
    }

    /// The time since a moment: "just now", "5 min ago".
    static func ago(_ moment: Double, now: Double) -> String {
        let seconds = max(0, now - moment)
        switch seconds {
        case ..<2: return "just now"
        case ..<120: return "\(Int(seconds)) s ago"
        case ..<7200: return "\(Int(seconds / 60)) min ago"
        case ..<172_800: return "\(Int(seconds / 3600)) h ago"
        default: return "\(Int(seconds / 86400)) days ago"
        }
    }

    static func now() -> Double { Double(SystemTimekeeper().now().nanoseconds) / 1e9 }
}
