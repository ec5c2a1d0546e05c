internal import UbiquityCore
internal import UbiquitySystem

/// An entry as readdir gives it.
package struct DirectoryItem: Sendable {
    package var name: [UInt8]
    /// Where reading goes on after it.
    package var offset: Int64
    package var attributes: NodeAttributes
    /// Whether, given with attributes, it counts as a lookup (all but "." and "..", and versions).
    package var isCounted: Bool
}

/// A handle of the kernel on a directory.
///
/// Reading goes by names: it goes on after the name at which it stopped, whatever was made or removed meanwhile. The
/// kernel names that place by an offset, which must mean the same in every handle on the directory, because the kernel
/// goes on through one handle where a listing cached through another ends. So the offset is the inode number of the
/// entry; the names of entries that have left since are kept while the directory is open (`OpenDirectoryTable`).
final class OpenDirectory: Sendable {
    let ino: UInt64
    /// The entries given last, so that the next request mostly needs no search.
    let recent = Lock<[Int64: ItemName]>([:])

    /// What stood in a versions folder when it was opened; nil for other directories.
    let versions: [VersionEntry]?

    struct VersionEntry: Sendable {
        let name: ItemName
        let node: VersionNodes.Node
        let kind: ItemKind
    }

    init(ino: UInt64, versions: [VersionEntry]? = nil) {
        self.ino = ino
        self.versions = versions
    }

    /// Offsets after "." and "..".
    static let afterDot: Int64 = 1
    static let afterDotDot: Int64 = 2
    static func offset(of ino: UInt64) -> Int64 { Int64(ino) + afterDotDot }
    static func inode(at offset: Int64) -> UInt64 { UInt64(offset - afterDotDot) }
}

/// The open directories, and what has left them since they were opened.
///
/// Lock order: a leaf.
final class OpenDirectoryTable: Sendable {
    private struct Entry {
        var handles = 0
        var departed: [UInt64: ItemName] = [:]
    }
    private let entries = Lock<[UInt64: Entry]>([:])

    func open(_ ino: UInt64) { entries.withLock { $0[ino, default: Entry()].handles += 1 } }

    func close(_ ino: UInt64) {
        entries.withLock { entries in
            guard let place = entries.index(forKey: ino) else { return }
            entries.values[place].handles -= 1
            if entries.values[place].handles <= 0 { entries.remove(at: place) }
        }
    }

    func noteDeparture(from directory: UInt64, ino: UInt64, name: ItemName) {
        entries.withLock { entries in
            guard let place = entries.index(forKey: directory) else { return }
            entries.values[place].departed[ino] = name
        }
    }

    func departed(from directory: UInt64, ino: UInt64) -> ItemName? {
        entries.withLock { $0[directory]?.departed[ino] }
    }
}
