package import UbiquityContent
package import UbiquityCore
internal import UbiquitySystem

/// Access to versions other than the current ones. Implemented by the sync engine.
package protocol VersionSource: Sendable {
    /// The unresolved conflicts and earlier versions of an item, newest first. Asks the cloud if needed, for a few
    /// seconds at most. If the cloud is unreachable, returns the versions known on this device.
    func otherVersions(of item: ItemID) async throws -> [RemoteVersion]

    /// Begins or joins the download of a version. Release the content with `Materializer.release`.
    /// - Throws: the errors of `Materializer.begin`.
    func begin(_ version: RemoteVersion) async throws -> PartialContent

    /// Downloads a version and returns a copy of its content, which the caller owns.
    func copy(_ version: RemoteVersion) async throws -> ContentID

    /// The contents of a package version.
    func tree(of version: RemoteVersion) async throws -> PackageTree

    /// Whether programs on this device have added versions to the item.
    func hasAppVersions(_ key: ItemKey) -> Bool

    /// The items that have versions of programs on this device.
    var itemsWithAppVersions: [ItemKey] { get }

    /// Removes a version that a program has added. Returns false for other versions.
    func removeAppVersion(_ version: VersionID) -> Bool
}

/// For a source without versions of programs.
extension VersionSource {
    package func hasAppVersions(_ key: ItemKey) -> Bool { false }
    package var itemsWithAppVersions: [ItemKey] { [] }
    package func removeAppVersion(_ version: VersionID) -> Bool { false }
}

/// The names of versions in their file's folder.
///
/// A name stays with its version once shown. If a deleted version's name passed to another version of the same second,
/// a program that removes the name twice would remove the other version.
package final class VersionNames: Sendable {
    /// Number of items whose version names are remembered.
    private static let maximumItems = 4096
    /// Number of names remembered per item.
    private static let maximumNames = 4096

    /// By item: the version for which each name was shown.
    private let shown = Lock<[ItemID: [ItemName: VersionID]]>([:])

    package init() {}

    /// Names each version distinctly: "2026-11-20T10.11.12Z laptop.txt". So a listing is sorted by time. If several
    /// versions would share a name, all but one include the beginning of their id.
    /// - Parameter name: the item's name, for its extension.
    package func named(
        _ versions: [RemoteVersion], of item: ItemID, _ name: ItemName
    ) -> [(ItemName, RemoteVersion)] {
        let suffix = Self.suffix(of: name)
        return shown.withLock { shown in
            if shown.count >= Self.maximumItems { shown = [:] }
            var owners = shown[item] ?? [:]
            if owners.count >= Self.maximumNames { owners = [:] }
            defer { shown[item] = owners }
            return versions.sorted { ($0.modifiedAt, $0.id) < ($1.modifiedAt, $1.id) }.map { version in
                let plain = Self.name(of: version, suffix: suffix, mark: "")
                let mark = " " + version.id.description.prefix(6)
                let isFree = owners[plain, default: version.id] == version.id
                let name = isFree ? plain : Self.name(of: version, suffix: suffix, mark: mark)
                owners[name] = version.id
                return (name, version)
            }
        }
    }

    /// The extension, unless it is too long. A last dot in a sentence is not an extension, and a long one would leave
    /// no space for the rest.
    private static func suffix(of name: ItemName) -> [UInt8] {
        let suffix = name.stemAndExtension.suffix
        return suffix.count <= maximumSuffix ? suffix : []
    }

    /// Longest extension in bytes, with its dot.
    private static let maximumSuffix = 32

    /// The name under which a version is kept as a document beside the file: "report (laptop).txt".
    package static func document(_ version: RemoteVersion, of name: ItemName) -> ItemName {
        let (stem, suffix) = name.stemAndExtension
        let tail = Array(" (\(cleaned(version.content.deviceName)))".utf8) + suffix
        guard tail.count < Limits.maximumNameLength else { return name.numbered(2) }
        var room = min(stem.count, Limits.maximumNameLength - tail.count)
        while room > 0, room < stem.count, stem[room] & 0xC0 == 0x80 { room -= 1 }
        return ItemName(stored: Array(stem[..<room]) + tail)
    }

    private static func name(of version: RemoteVersion, suffix: [UInt8], mark: String) -> ItemName {
        let conflict = version.kind == .conflict ? " (conflict)" : ""
        let head = Array((CivilTime.name(version.modifiedAt) + " ").utf8)
        let tail = Array((mark + conflict).utf8) + suffix
        var device = Array(cleaned(version.content.deviceName).utf8)
        var room = max(0, Limits.maximumNameLength - head.count - tail.count)
        if device.count > room {
            while room > 0, device[room] & 0xC0 == 0x80 { room -= 1 }
            device = Array(device[..<room])
        }
        return ItemName(stored: Array((head + device + tail).prefix(Limits.maximumNameLength)))
    }

    /// Replaces characters of a device name that a file name must not have or that make a listing hard to read.
    static func cleaned(_ device: String) -> String {
        let text = String(String.UnicodeScalarView(device.unicodeScalars.map { $0.value < 32 || $0 == "/" ? "-" : $0 }))
        return text.isEmpty ? "unknown device" : text
    }
}
