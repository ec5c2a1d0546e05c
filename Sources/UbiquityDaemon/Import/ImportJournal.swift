import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The progress of an import: one line for each step of an item, synced before the step that relies on it. So an import
/// that was killed goes on where it ended, and no item is imported twice.
final class ImportJournal: Sendable {
    /// A step of an item. Later lines replace earlier ones.
    struct Line: Codable, Hashable, Sendable {
        enum Step: String, Codable, Sendable {
            /// The next step gives the item this path. It may have the path already.
            case placing
            /// The new cloud has confirmed the item.
            case confirmed
            /// The item is deleted in the account before.
            case removed
        }

        /// The item's id and, for a file, its version: an edited file is imported again.
        var item: String
        /// The path in the new container, absolute on this machine.
        var target: String
        var step: Step
    }

    /// Longest journal in bytes: a few hundred thousand items.
    private static let limit = 256 * 1024 * 1024

    private let file: FileDescriptor
    private let lines: Lock<[String: Line]>

    init(_ path: String) throws(UbiquityError) {
        var known = [String: Line]()
        for line in (try SmallFile.read(path, limit: Self.limit) ?? []).split(separator: UInt8(ascii: "\n")) {
            // A line that was cut off by the end of the process is not known.
            guard let line = try? ControlCodec.decode(Line.self, from: line) else { continue }
            known[line.item] = line
        }
        lines = Lock(known)
        file = try describing("open the import's journal", at: path) { () throws(Errno) in
            try FileSystem.makeDirectories(Path.parent(of: path))
            let file = try FileDescriptor.openFile(path, [.writeOnly, .create, .append])
            // The line after a cut one begins on its own.
            try file.write([UInt8(ascii: "\n")])
            return file
        }
    }

    func line(of item: RemoteItem) -> Line? { lines.withLock { $0[Self.key(item)] } }

    func record(_ item: RemoteItem, at target: String, _ step: Line.Step) throws(UbiquityError) {
        let line = Line(item: Self.key(item), target: target, step: step)
        let bytes = try ControlCodec.encode(line)
        try describing("write the import's journal") { () throws(Errno) in
            try file.write(bytes + [UInt8(ascii: "\n")])
            try file.syncData()
        }
        lines.withLock { $0[line.item] = line }
    }

    private static func key(_ item: RemoteItem) -> String {
        item.content.map { "\(item.id) \($0.version)" } ?? item.id.description
    }
}
