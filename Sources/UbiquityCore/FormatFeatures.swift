/// The features that stored data or a cloud uses, by their effect on programs that do not know them. Each name stays
/// for ever, and a program lists the names that it knows.
///
/// A format number stops every older program. A feature stops only the access that it breaks.
package struct FormatFeatures: Hashable, Sendable {
    /// Programs without these may read and write.
    package var compatible: Set<String> = []
    /// Programs without these may read only.
    package var readOnlyCompatible: Set<String> = []
    /// Programs without these must not read.
    package var incompatible: Set<String> = []
    /// The oldest version of the program that knows all of them; empty if it is not known.
    package var program = ""

    package init() {}

    /// The access that a program has.
    package enum Access: Hashable, Sendable {
        case full
        /// Only reading, with the unknown features.
        case readOnly([String])
        /// None, with the unknown features.
        case none([String])
    }

    /// - Parameter known: the names of the features that the program knows.
    package func access(knowing known: Set<String>) -> Access {
        let stopping = incompatible.subtracting(known), reading = readOnlyCompatible.subtracting(known)
        if !stopping.isEmpty { return .none(stopping.sorted()) }
        return reading.isEmpty ? .full : .readOnly(reading.sorted())
    }

    /// The error for an access that is refused.
    /// - Parameter subject: what has the features, for example "the cloud's data".
    package func refusal(of subject: String, _ unknown: [String]) -> UbiquityError {
        UbiquityError(
            .newerFormat,
            "\(subject) uses features that this program does not know: \(unknown.joined(separator: ", "))",
            remedy: program.isEmpty
                ? "install a newer version of ubiquity" : "install version \(program) of ubiquity or a later one")
    }

    // MARK: As a text

    /// Four lists of words: "compat=a,b ro-compat=c incompat=d program=1.2". Unknown lists are ignored.
    package init(text: some StringProtocol) {
        for part in text.split(separator: " " as Character) {
            guard let equals = part.firstIndex(of: "=") else { continue }
            let value = part[part.index(after: equals)...]
            let words = Set(value.split(separator: "," as Character).map { String($0) })
            switch part[..<equals] {
            case "compat": compatible = words
            case "ro-compat": readOnlyCompatible = words
            case "incompat": incompatible = words
            case "program": program = String(value)
            default: break
            }
        }
    }

    package var text: String {
        [("compat", compatible), ("ro-compat", readOnlyCompatible), ("incompat", incompatible), ("program", [program])]
            .filter { !$0.1.isEmpty && $0.1 != [""] }.map { "\($0.0)=\($0.1.sorted().joined(separator: ","))" }
            .joined(separator: " ")
    }
}

extension FormatFeatures {
    /// The version of this program.
    package static let program = "0.1.0"

    /// The features of this program's formats: their names in the index, the cloud's data and the wire.
    package static let known: Set<String> = ["display-names"]

    /// The greater of two versions of the program, such as "0.9.1" and "0.10".
    package static func newer(_ first: String, _ second: String) -> String {
        func numbers(_ text: String) -> [Int] { text.split(separator: "." as Character).map { Int($0) ?? 0 } }
        return numbers(first).lexicographicallyPrecedes(numbers(second)) ? second : first
    }
}
