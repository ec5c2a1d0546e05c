internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The losing versions of documents in conflict, as entries beside the documents: "report (conflict of laptop).txt".
///
/// The entries are in no index, so nothing uploads them. Their inodes are those of `VersionNodes`. The cloud's record
/// names at most `Limits.maximumConflictsInRecord` versions of an item; further ones are in `.versions` alone.
///
/// Lock order: a leaf.
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
    private struct Shown: Equatable {
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
    private struct State {
        /// By directory and document.
        var shown: [ItemKey: [ItemKey: Shown]] = [:]
        /// The number of changes of `shown`.
        var changes: UInt64 = 0
    }
    private let state = Lock(State())

    init(index: ItemIndex, isOn: Bool) {
        self.index = index
        self.isOn = isOn
    }

    /// Whether a conflict could give an entry this name.
    func mayShow(_ name: [UInt8]) -> Bool {
        guard isOn, name.count > Self.mark.count else { return false }
        return (0...(name.count - Self.mark.count)).contains { name[$0...].starts(with: Self.mark) }
    }

    /// The losing version that a directory shows under this name beside its document; nil for any other name.
    func entry(named name: [UInt8], in parent: UInt64) throws -> Entry? {
        guard mayShow(name), let directory = try index.row(ino: parent), !directory.isDeleted else {
            return nil
        }
        return try entries(in: directory.key).first { $0.name.bytes == name }
    }

    /// The entries of a directory, in the order of their documents' names. None has the name of an item.
    func entries(in directory: ItemKey) throws -> [Entry] {
        guard isOn else { return [] }
        var result = [Entry]()
        for _ in 0..<Self.attempts {
            let (known, changes) = state.withLock { ($0.shown[directory] ?? [:], $0.changes) }
            var names = [ItemKey: Shown]()
            (result, names) = try entries(in: directory, known)
            // Another thread may have given names at the same time: then both must know of both.
            let isKept = state.withLock { [names] state in
                guard state.changes == changes else { return false }
                guard names != known else { return true }
                if state.shown.count >= Self.maximumDirectories { state.shown = [:] }
                state.shown[directory] = names.isEmpty ? nil : names
                state.changes += 1
                return true
            }
            if isKept { return result }
        }
        return result
    }

    /// How often names are given anew because another thread gives some at the same time.
    private static let attempts = 16

    private func entries(
        in directory: ItemKey, _ known: [ItemKey: Shown]
    ) throws -> (entries: [Entry], names: [ItemKey: Shown]) {
        let documents = try index.peek { reader in
            try reader.itemsInConflict(in: directory).map { ($0, try reader.conflicts(of: $0.id)) }
        }
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
        return (result, names)
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
