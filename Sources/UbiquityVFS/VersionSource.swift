package import UbiquityContent
package import UbiquityCore
internal import UbiquitySystem

/// Versions beside the current ones. Answered by the sync engine.
package protocol VersionSource: Sendable {
    /// The unresolved conflicts and earlier versions of an item, the newest first. Asks the cloud if need be, within a
    /// few seconds; of a cloud that is away it gives what is known here.
    func otherVersions(of item: ItemID) async throws -> [RemoteVersion]

    /// Begins or joins the download of a version; given back with `Materializer.release`.
    /// - Throws: what `Materializer.begin` does.
    func begin(_ version: RemoteVersion) async throws -> PartialContent

    /// Downloads a version and gives a copy of its content, which is the caller's.
    func copy(_ version: RemoteVersion) async throws -> ContentID

    /// What lies in a version of a package.
    func tree(of version: RemoteVersion) async throws -> PackageTree
}

/// The names that versions have in the folder of their file.
///
/// A name once shown stays with its version: if it went over to another of the same second when that version is gone,
/// who removes it a second time would remove the other.
package final class VersionNames: Sendable {
    /// Items whose versions' names are remembered.
    private static let maximumItems = 4096
    /// Names that are remembered of an item.
    private static let maximumNames = 4096

    /// By item, the version that each name was shown for.
    private let shown = Lock<[ItemID: [ItemName: VersionID]]>([:])

    package init() {}

    /// Each version with a name of its own: "2026-11-20T10.11.12Z laptop.txt", so that a listing is in the order of
    /// time. Of several that would have one name all but one have their id's beginning in it.
    /// - Parameter name: the item's, for the extension.
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

    /// The extension, if it is one: what follows the last dot of a sentence would leave no room for the rest.
    private static func suffix(of name: ItemName) -> [UInt8] {
        let suffix = name.stemAndExtension.suffix
        return suffix.count <= maximumSuffix ? suffix : []
    }

    /// Bytes of an extension, with its dot.
    private static let maximumSuffix = 32

    /// The name of the document that a version is kept as beside the file: "report (laptop).txt".
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

    /// A device's name may hold what no file's may, and what would make a listing hard to read.
    private static func cleaned(_ device: String) -> String {
        let text = String(String.UnicodeScalarView(device.unicodeScalars.map { $0.value < 32 || $0 == "/" ? "-" : $0 }))
        return text.isEmpty ? "unknown device" : text
    }
}
