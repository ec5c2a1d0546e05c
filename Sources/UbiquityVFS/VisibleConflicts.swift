internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The losing versions of documents in conflict, as entries beside the documents: "report (conflict of laptop).txt".
///
/// The entries are in no index, so nothing uploads them. Their inodes are those of `VersionNodes`. The cloud's record
/// names at most `Limits.maximumConflictsInRecord` versions of an item; further ones are in `.versions` alone.
///
/// Lock order: before the index's writer.
final class VisibleConflicts: Sendable {
    struct Entry: Sendable {
        let name: ItemName
        /// The file or package in conflict.
        let document: ItemRow
        let version: RemoteVersion

        var node: VersionNodes.Node { .version(version.id, of: document.key, .besideDocument) }
    }

    /// The names that the versions of one document have had since its conflict began. A second removal of one name must
    /// not meet another version.
    private struct Shown {
        var document: ItemName
        var owners: [ItemName: VersionID] = [:]
    }

    /// In every name of an entry.
    private static let mark = Array(" (conflict of ".utf8)
    /// Bytes of a device's name in the name of an entry, and of an extension.
    private static let longestDevice = 96
    private static let longestSuffix = 32
    /// A version without a free name up to this number is in `.versions` alone.
    private static let highestNumber = 1000
    /// Directories whose names are remembered.
    private static let maximumDirectories = 1024

    /// Whether directories show the entries (`visible-conflicts`).
    let isOn: Bool
    private let index: ItemIndex
    /// By directory and document.
    private let shown = Lock<[ItemKey: [ItemKey: Shown]]>([:])

    init(index: ItemIndex, isOn: Bool) {
        self.index = index
        self.isOn = isOn
    }

    /// Whether a conflict could give an entry this name.
    func mayShow(_ name: [UInt8]) -> Bool {
        guard isOn, name.count > Self.mark.count else { return false }
        return (0...(name.count - Self.mark.count)).contains { name[$0...].starts(with: Self.mark) }
    }

    /// The entries of a directory, in the order of their documents' names. None has the name of an item.
    func entries(in directory: ItemKey) throws -> [Entry] {
        guard isOn else { return [] }
        return try shown.withLock { shown in
            let documents = try index.peek { reader in
                try reader.itemsInConflict(in: directory).map { ($0, try reader.conflicts(of: $0.id)) }
            }
            guard !documents.isEmpty else {
                shown[directory] = nil
                return []
            }
            let known = shown[directory] ?? [:]
            if shown.count >= Self.maximumDirectories { shown = [:] }
            var result = [Entry](), names = [ItemKey: Shown](), taken = Set<ItemName>()
            for (document, versions) in documents {
                guard let name = document.entry?.name else { continue }
                var own = known[document.key].flatMap { $0.document == name ? $0 : nil } ?? Shown(document: name)
                for version in versions.sorted(by: { ($0.modifiedAt, $0.id) < ($1.modifiedAt, $1.id) }) {
                    let entry = try freeName(of: version, &own) { candidate in
                        try !taken.contains(candidate) && index.child(of: directory, named: candidate) == nil
                    }
                    guard let entry else { continue }
                    taken.insert(entry)
                    result.append(Entry(name: entry, document: document, version: version))
                }
                names[document.key] = own
            }
            shown[directory] = names
            return result
        }
    }

    /// The name that the version has had, or else the first free one.
    private func freeName(
        of version: RemoteVersion, _ shown: inout Shown, isFree: (ItemName) throws -> Bool
    ) throws -> ItemName? {
        let device = version.content.deviceName
        for number in 1...Self.highestNumber {
            let name = Self.name(of: shown.document, device: device, number)
            guard shown.owners[name, default: version.id] == version.id, try isFree(name) else { continue }
            shown.owners[name] = version.id
            return name
        }
        return nil
    }

    /// "report.txt" of "laptop" becomes "report (conflict of laptop).txt", and "report (conflict of laptop 2).txt" for
    /// the number 2. Names that would be too long lose the end of their stem.
    static func name(of document: ItemName, device: String, _ number: Int) -> ItemName {
        var (stem, suffix) = document.stemAndExtension
        if suffix.count > longestSuffix { (stem, suffix) = (document.bytes, []) }
        let device = shortened(Array(VersionNames.cleaned(device).utf8), to: longestDevice)
        let tail = mark + device + Array((number > 1 ? " \(number))" : ")").utf8) + suffix
        return ItemName(stored: shortened(stem, to: Limits.maximumNameLength - tail.count) + tail)
    }

    /// At most `length` bytes, cut between characters.
    private static func shortened(_ bytes: [UInt8], to length: Int) -> [UInt8] {
        var end = min(bytes.count, max(0, length))
        while end > 0, end < bytes.count, bytes[end] & 0xC0 == 0x80 { end -= 1 }
        return Array(bytes[..<end])
    }
}

extension VersionNodes.Side {
    /// The mode that a version has here. Beside its document a file looks like one that nobody may write; a folder
    /// keeps its rights, so that `rm -r` can empty it.
    func shown(_ mode: UInt32) -> UInt32 {
        guard self == .besideDocument, mode & FileMode.typeMask == FileMode.file else { return mode }
        return mode & ~0o222
    }
}
