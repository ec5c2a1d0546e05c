import UbiquityControl
import UbiquityCore
import UbiquitySystem
import UbiquityVFS

/// The user's settings for all their mounts and clouds: lines "name = value" in `$XDG_CONFIG_HOME/ubiquity/config`
/// (else `~/.config/ubiquity/config`). A line that begins with "#" is a comment.
package struct UserConfiguration: Hashable, Sendable {
    /// Largest file in bytes.
    private static let maximumLength = 1 << 20
    private static let mergePrefix = "merge."
    private static let appPrefix = "app."
    private static let quota = "quota"
    private static let keep = "keep"
    private static let keepVersions = "keep-versions"
    private static let trustSuid = "trust-suid"
    private static let visibleConflicts = "visible-conflicts"
    private static let previews = "previews"
    private static let previewsLimit = "previews.limit"
    private static let keyValue = "key-value"
    private static let keyValuePrefix = keyValue + "."
    private static let switches = [trustSuid, visibleConflicts, keyValue]
    /// In days: a hundred years.
    package static let longestKeep = 36_525.0

    /// Lists that lines can extend; each has a `.standard` setting that takes yes or no.
    private static let lists = ["ignore", "package", "no-materialize", "noatime-reader"]

    /// The names of all settings.
    static let settings = lists + lists.map { $0 + ".standard" }
        + ["merge.EXTENSION", "app.NAME", quota, keep, keepVersions, previews, previewsLimit] + switches
        + ["key-value.CONTAINER"]

    /// All values of each name, in order.
    private var values: [String: [String]] = [:]
    /// Lines that were ignored because they are not understood, each with its number and the reason.
    package private(set) var complaints: [String] = []

    package static func path() throws(UbiquityError) -> String {
        try DeviceFolder.base("XDG_CONFIG_HOME", inHome: ".config") + "/ubiquity/config"
    }

    /// The present configuration; empty if there is no file. It names commands to run: throws `.notPermitted` if
    /// another user may change it.
    package static func load() throws(UbiquityError) -> UserConfiguration { try load(from: path()) }

    static func load(from path: String) throws(UbiquityError) -> UserConfiguration {
        guard let bytes = try SmallFile.read(path, limit: maximumLength) else { return UserConfiguration("") }
        try TrustedPath.require(path, as: "the configuration")
        return UserConfiguration(String(decoding: bytes, as: UTF8.self))
    }

    package init(_ text: String) {
        let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (number, line) in lines.enumerated() {
            let line = Self.trimmed(line)
            guard !line.isEmpty, !line.hasPrefix("#") else { continue }
            let equals = line.firstIndex(of: "=")
            let name = Self.trimmed(line[..<(equals ?? line.endIndex)])
            let value = equals.map { Self.trimmed(line[line.index(after: $0)...]) }
            if let why = Self.complaint(about: name, value) {
                complaints.append("line \(number + 1): \(why)")
            } else if let value {
                // Extensions are compared without case.
                let name = name.hasPrefix(Self.mergePrefix) ? name.lowercased() : name
                values[name, default: []].append(value)
            }
        }
    }

    private static func complaint(about name: String, _ value: String?) -> String? {
        guard let value else { return "'\(name)' has no value: a line is 'name = value'" }
        if name.hasPrefix(mergePrefix) {
            if name == mergePrefix { return "'merge.' lacks an extension" }
            return value.isEmpty ? "'\(name)' has no command" : nil
        }
        if name.hasPrefix(appPrefix) {
            if name == appPrefix { return "'app.' lacks the name of an app" }
            return containers(value) == nil ? "'\(name)' is a list of containers, for example 'notes, photos'" : nil
        }
        if name == quota {
            return (try? ByteSize.parse(value)).map { $0 > 0 } == true
                ? nil : "'quota' is a size above 0, for example 50G"
        }
        if name == keep {
            return days(value) == nil ? "'keep' is a number of days from 0 to \(Int(longestKeep)), for example 90" : nil
        }
        if name == keepVersions {
            return versions(value) == nil ? "'keep-versions' is a number of versions, for example 20" : nil
        }
        if name == previews {
            return (try? ItemName(value)) == nil
                ? "'previews' is the name of a folder, for example Previews, or 'none'" : nil
        }
        if name == previewsLimit {
            return (try? ByteSize.parse(value)).map { $0 >= 0 } == true
                ? nil : "'previews.limit' is a size, for example 64K"
        }
        if lists.contains(name) { return value.isEmpty ? "'\(name)' has no value" : nil }
        let isSwitch = switches.contains(name) || name.hasPrefix(keyValuePrefix)
        guard isSwitch || lists.contains(where: { name == $0 + ".standard" }) else {
            return "there is no setting '\(name)'; there are \(settings.joined(separator: ", "))"
        }
        return ["yes", "no"].contains(value) ? nil : "'\(name)' is yes or no, not '\(value)'"
    }

    /// Names of containers, separated by commas; nil if one is none.
    private static func containers(_ text: String) -> Set<ContainerID>? {
        var found = Set<ContainerID>()
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let container = ContainerID(trimmed(part)) else { return nil }
            found.insert(container)
        }
        return found
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        var text = text[...]
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    /// The command of `merge.EXTENSION` for a file name; nil if there is none. The case of the extension does not
    /// matter.
    package func mergeCommand(for name: ItemName) -> String? {
        let suffix = String(decoding: name.stemAndExtension.suffix.dropFirst(), as: UTF8.self).lowercased()
        guard !suffix.isEmpty, let command = values[Self.mergePrefix + suffix]?.last, !command.isEmpty else {
            return nil
        }
        return command
    }

    /// `app.NAME = CONTAINER, …`: the containers that the app of this name may use; nil if it may use all.
    package func containers(ofApp name: String) -> Set<ContainerID>? {
        values[Self.appPrefix + name].map { lines in
            lines.reduce(into: Set()) { $0.formUnion(Self.containers($1) ?? []) }
        }
    }

    /// `quota = SIZE`: quota in bytes of each account of the clouds that this user runs; nil if not set.
    package var quotaBytes: Int64? { values[Self.quota]?.last.flatMap { try? ByteSize.parse($0) } }

    /// `keep = DAYS`: how long the clouds that this user runs keep deleted items and old versions; nil if not set.
    package var keptDays: Double? { values[Self.keep]?.last.flatMap(Self.days) }

    /// `keep-versions = N`: how many earlier versions of one file they keep; nil if not set.
    package var keptVersions: Int? { values[Self.keepVersions]?.last.flatMap(Self.versions) }

    /// `trust-suid = yes`: mounts accept set-user-id and set-group-id bits that other devices set.
    package var trustsPrivileges: Bool { values[Self.trustSuid]?.last == "yes" }

    /// `visible-conflicts = yes`: mounts show losing versions as entries beside their documents.
    package var showsConflicts: Bool { values[Self.visibleConflicts]?.last == "yes" }

    /// Whether a container has key-values on this device: `key-value.CONTAINER = no`, else `key-value = no`, turns them
    /// off.
    package func hasKeyValues(of container: ContainerID) -> Bool {
        (values[Self.keyValuePrefix + container.name] ?? values[Self.keyValue])?.last != "no"
    }

    /// `previews = FOLDER`: the folder of previews at a container's root, `none` for no such folder; `previews.limit =
    /// SIZE`: the largest preview that is downloaded early.
    var earlyPreviews: EarlyPreviews.Rule {
        let name = values[Self.previews]?.last ?? EarlyPreviews.Rule.standardFolder
        let limit = values[Self.previewsLimit]?.last.flatMap { try? ByteSize.parse($0) }
        return EarlyPreviews.Rule(
            folder: name == "none" ? nil : try? ItemName(name), limit: limit ?? EarlyPreviews.Rule.standardLimit)
    }

    private static func days(_ text: String) -> Double? {
        Double(text).flatMap { (0...longestKeep).contains($0) ? $0 : nil }
    }

    private static func versions(_ text: String) -> Int? { Int(text).flatMap { $0 >= 0 ? $0 : nil } }

    package var hasMergeCommands: Bool { values.keys.contains { $0.hasPrefix(Self.mergePrefix) } }

    /// `ignore = PATTERN` adds a line to the standard list (a pattern with "!" excludes again); `ignore.standard = no`
    /// omits the standard list.
    package var ignoring: IgnoreRules { IgnoreRules(standard("ignore", IgnoreRules.standardLines)) }

    /// `package = EXTENSION` adds to the standard list of packages; `package.standard = no` omits that list.
    package var packages: PackageRules {
        PackageRules(extensions: standard("package", PackageRules.standardExtensions))
    }

    /// `no-materialize = NAME` adds to the standard list of programs whose reads download nothing, `!NAME` removes one;
    /// `no-materialize.standard = no` omits that list.
    package var backgroundReaders: [String] { programs("no-materialize", BackgroundReaders.standardNames) }

    /// `noatime-reader = NAME` adds to the programs that may download what they open with O_NOATIME, `!NAME` removes
    /// one; `noatime-reader = *` lets every program download.
    package var noAccessTimeReaders: [String] { programs("noatime-reader", NoAccessTimeReaders.standardNames) }

    private func programs(_ setting: String, _ known: [String]) -> [String] {
        var names = [String]()
        for name in standard(setting, known) {
            if name.hasPrefix("!") { names.removeAll { $0 == name.dropFirst() } } else { names.append(name) }
        }
        return names
    }

    private func standard(_ name: String, _ standard: [String]) -> [String] {
        (values[name + ".standard"]?.last == "no" ? [] : standard) + (values[name] ?? [])
    }
}
