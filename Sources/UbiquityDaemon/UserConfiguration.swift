import UbiquityCore
import UbiquitySystem
import UbiquityVFS

/// What a person has written down for all mounts of theirs: lines "name = value" in `$XDG_CONFIG_HOME/ubiquity/config`
/// (else `~/.config/ubiquity/config`). A line that begins with "#" is a remark.
package struct UserConfiguration: Hashable, Sendable {
    /// Bytes of the file.
    private static let maximumLength = 1 << 20
    private static let mergePrefix = "merge."

    /// Of a name that stands several times, all in order.
    private var values: [String: [String]] = [:]

    package static func path() throws(UbiquityError) -> String {
        try DeviceFolder.base("XDG_CONFIG_HOME", inHome: ".config") + "/ubiquity/config"
    }

    /// As it is now; empty if there is none.
    package static func load() throws(UbiquityError) -> UserConfiguration {
        let bytes = try SmallFile.read(path(), limit: maximumLength) ?? []
        return UserConfiguration(String(decoding: bytes, as: UTF8.self))
    }

    package init(_ text: String) {
        for line in text.split(whereSeparator: \.isNewline) {
            guard line.first(where: { !$0.isWhitespace }) != "#", let equals = line.firstIndex(of: "=") else {
                continue
            }
            let name = Self.trimmed(line[..<equals]), value = Self.trimmed(line[line.index(after: equals)...])
            if !name.isEmpty { values[name, default: []].append(value) }
        }
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    /// The command of `merge.EXTENSION`, for the name of a file; nil if there is none.
    package func mergeCommand(for name: ItemName) -> String? {
        let suffix = String(decoding: name.stemAndExtension.suffix.dropFirst(), as: UTF8.self)
        guard !suffix.isEmpty, let command = values[Self.mergePrefix + suffix]?.last, !command.isEmpty else {
            return nil
        }
        return command
    }

    package var hasMergeCommands: Bool { values.keys.contains { $0.hasPrefix(Self.mergePrefix) } }

    /// `ignore = PATTERN` adds a line to the standard list (one with "!" takes something back); `ignore.standard = no`
    /// leaves the standard list out.
    package var ignoring: IgnoreRules { IgnoreRules(standard("ignore", IgnoreRules.standardLines)) }

    /// `package = EXTENSION` adds to the standard list of packages; `package.standard = no` leaves that out.
    package var packages: PackageRules {
        PackageRules(extensions: standard("package", PackageRules.standardExtensions))
    }

    /// `no-materialize = NAME` adds to the standard list of programs whose reads download nothing, `!NAME` takes one
    /// out of it; `no-materialize.standard = no` leaves that out.
    package var backgroundReaders: [String] {
        var names = [String]()
        for name in standard("no-materialize", BackgroundReaders.standardNames) {
            if name.hasPrefix("!") { names.removeAll { $0 == name.dropFirst() } } else { names.append(name) }
        }
        return names
    }

    private func standard(_ name: String, _ standard: [String]) -> [String] {
        (values[name + ".standard"]?.last == "no" ? [] : standard) + (values[name] ?? [])
    }
}
