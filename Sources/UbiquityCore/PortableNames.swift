/// Finds names that other systems cannot hold. Linux allows them, so they are no errors here.
package enum PortableNames {
    /// The reason why another system cannot hold a name.
    package enum Problem: Hashable, Sendable, CustomStringConvertible {
        /// A device of Windows, such as "CON" or "com1.txt".
        case reserved
        /// Characters that Windows does not allow, in the order of their first use.
        case characters(String)
        case controlCharacters
        case trailingDot, trailingSpace
        /// More than 255 UTF-16 units.
        case tooLong
        /// Other names of the folder that a system without upper and lower case, or with one form of accents, takes for
        /// the same name.
        case twins([String])

        package var description: String {
            switch self {
            case .reserved: "Windows reserves this name"
            case .characters(let found): "Windows allows none of \(found.map { "\"\($0)\"" }.joined(separator: ", "))"
            case .controlCharacters: "Windows allows no control characters"
            case .trailingDot: "Windows removes the dot at its end"
            case .trailingSpace: "Windows removes the space at its end"
            case .tooLong: "it has more than 255 UTF-16 units"
            case .twins(let others):
                "Windows and macOS take it for the same name as \(others.map { "\"\($0)\"" }.joined(separator: ", "))"
            }
        }
    }

    /// The problems of the names of one folder, by name; names without a problem are left out.
    package static func problems(among names: [ItemName]) -> [(name: ItemName, problems: [Problem])] {
        var groups = [String: [ItemName]]()
        for name in names { groups[key(name), default: []].append(name) }
        return names.sorted().compactMap { name in
            var problems = problems(of: name)
            let twins = groups[key(name), default: []].filter { $0 != name }.sorted()
            if !twins.isEmpty { problems.append(.twins(twins.map(\.description))) }
            return problems.isEmpty ? nil : (name, problems)
        }
    }

    /// The problems of a name by itself.
    package static func problems(of name: ItemName) -> [Problem] {
        let text = name.description
        var problems = [Problem]()
        // The part before the first dot counts, without spaces at its end.
        var stem = text.prefix { $0 != "." }
        while stem.last == " " { stem.removeLast() }
        if reserved.contains(stem.uppercased()) { problems.append(.reserved) }
        var found = ""
        for character in text where forbidden.contains(character) && !found.contains(character) {
            found.append(character)
        }
        if !found.isEmpty { problems.append(.characters(found)) }
        if text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            problems.append(.controlCharacters)
        }
        if name.bytes.last == UInt8(ascii: ".") { problems.append(.trailingDot) }
        if name.bytes.last == UInt8(ascii: " ") { problems.append(.trailingSpace) }
        if text.utf16.count > 255 { problems.append(.tooLong) }
        return problems
    }

    /// Equal for names that differ in case or in the form of accents only: equal strings are canonically equivalent.
    private static func key(_ name: ItemName) -> String { name.description.uppercased().lowercased() }

    private static let forbidden: Set<Character> = ["<", ">", ":", "\"", "\\", "|", "?", "*"]

    private static let reserved: Set<String> = {
        var names: Set<String> = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"]
        for number in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"] {
            names.formUnion(["COM\(number)", "LPT\(number)"])
        }
        return names
    }()
}
