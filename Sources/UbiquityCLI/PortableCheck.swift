import Ubiquity
import UbiquityCore
import UbiquitySystem

/// `ubiquity doctor --portable`: lists the names in a folder that other systems cannot hold. It reads names only, so
/// nothing is downloaded.
struct PortableCheck {
    /// A name with its problems.
    struct Finding: Encodable {
        var path: String
        var problems: [String]
    }

    /// Calls `found` for each name below the folder that another system cannot hold.
    static func run(below folder: String, _ found: (Finding) throws -> Void) throws {
        var folders = [folder]
        while let next = folders.popLast() {
            let entries = try describing("list the folder", at: next) { () throws(Errno) -> [DirectoryEntry] in
                // Removed meanwhile.
                do throws(Errno) { return try FileSystem.entries(of: next) } catch .ENOENT { return [] }
            }
            let names = entries.map { ItemName(stored: $0.name) }.filter { $0 != .versionsFolder }
            for (name, problems) in PortableNames.problems(among: names) {
                try found(
                    Finding(path: Path.join(next, name.description), problems: problems.map(\.description)))
            }
            for entry in entries.sorted(by: { $1.text < $0.text }) where entry.text != ".versions" {
                let path = Path.join(next, entry.text)
                let isFolder = entry.kind == .unknown
                    ? (try? FileSystem.status(path))?.isDirectory == true : entry.kind == .directory
                if isFolder { folders.append(path) }
            }
        }
    }
}
