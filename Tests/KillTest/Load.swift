import Glibc
import UbiquityCore
import UbiquitySystem

/// The load of a worker: saves of every kind, edits in place, renames and removals, each logged before and after.
final class Load {
    private let root: String
    private let folder: String
    private var log: FileDescriptor
    private let positionPath: String?
    private var random: Random
    private var number: Int
    private var files: [String: FileState] = [:]
    private var nextID: UInt64
    /// The current operation, for error messages.
    private var doing = ""
    /// Folders, by their index in `folderNames`.
    private var folderNames: [String]

    private static let fileCount = 12
    private static let folderCount = 3
    private static let sizes = [40, 700, 3000, 9000, 60_000, 60_000, 300_000]
    private static let largeSize = 3_000_000
    /// Edits of one save before the file is saved anew: the audit checks all of them.
    private static let maximumEdits: UInt64 = 60

    init(
        root: String, folder: String, journal: String, known: Journal, found: [String: Pattern.Finding], seed: UInt64,
        position: String?
    ) throws {
        self.root = root
        self.folder = folder
        positionPath = position
        log = try FileDescriptor.open(journal, [.writeOnly, .create, .append])
        random = Random(seed: seed)
        number = known.count
        nextID = UInt64(known.count) * 1000 + seed % 1000 + 1
        folderNames = (0..<Self.folderCount).map { "d\($0)" }
        try FileSystem.makeDirectories(root + "/" + folder, mode: 0o755)
        try findFolders()
        var seen = [String]()
        for path in Set(known.paths).union(found.keys) {
            if case .state(let state) = found[path] { files[path] = state }
            if found[path] == nil || files[path] != nil { seen.append("\(path)=\(text(files[path]))") }
        }
        // If the next line covers all files, the earlier lines add nothing. Each start would read them, and after a
        // thousand rounds that took most of the time. On a recorded disk the positions are needed, so the lines stay.
        if position == nil, found.keys.allSatisfy({ files[$0] != nil }) {
            try SmallFile.publish(Array("N \(number)\nO \(seen.joined(separator: " "))\n".utf8), at: journal)
            log = try FileDescriptor.open(journal, [.writeOnly, .append])
        } else if !seen.isEmpty {
            try write("O " + seen.joined(separator: " "))
        }
        // Saves torn files anew.
        for path in found.keys.sorted() where files[path] == nil { try save(path, .aside) }
    }

    private func findFolders() throws {
        for entry in try FileSystem.entries(of: root + "/" + folder) where entry.text.hasPrefix("d") {
            guard let place = Int(entry.text.dropFirst().prefix { $0 != "-" }), place < Self.folderCount else { continue }
            folderNames[place] = entry.text
        }
        for name in folderNames { try FileSystem.makeDirectories(root + "/" + folder + "/" + name, mode: 0o755) }
    }

    private func text(_ state: FileState?) -> String { state?.description ?? "-" }

    private func write(_ line: String) throws { try log.write(Array((line + "\n").utf8)) }

    // MARK: One step

    func step() throws {
        let path = randomPath()
        switch random.below(100) {
        case ..<22: try save(path, .aside)
        case ..<32: try save(path, .asideUnsynced)
        case ..<42: try save(path, .inPlace)
        case ..<47: try save(path, .inPlaceUnsynced)
        case ..<72: try edit(path)
        case ..<80: try remove(path)
        case ..<94: try rename(path, to: randomPath())
        default: try renameFolder()
        }
    }

    private func randomPath() -> String {
        let name = "f\(random.below(Self.fileCount))"
        let place = random.below(Self.folderCount * 2)
        return place < Self.folderCount ? "\(folder)/\(folderNames[place])/\(name)" : "\(folder)/\(name)"
    }

    /// Logs the intention, performs it, and logs the completion.
    private func perform(
        _ flags: String, _ changes: [(String, FileState?)], _ body: () throws -> Void
    ) throws {
        number += 1
        try write("T \(number) \(flags) " + changes.map { "\($0.0)=\(text($0.1))" }.joined(separator: " "))
        do {
            try body()
        } catch let error as Errno where !error.meansDeath && error != .EINTR {
            // (The meaning of EINTR is only known when the mount dies or survives.)
            throw Trouble("\(doing) of operation \(number): \(error)")
        }
        try write("D \(number) \(try position())")
        for (path, state) in changes { files[path] = state }
    }

    private func position() throws -> Int {
        guard let positionPath else { return 0 }
        let bytes = try FileDescriptor.open(positionPath, .readOnly).readSome(count: 32)
        return Int(String(decoding: bytes.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)) ?? 0
    }

    // MARK: Saves

    private enum Way {
        /// A new file, synced, is renamed over the old one, and the folder is synced.
        case aside
        case asideUnsynced
        /// The file is truncated, written and synced. For a new file the folder is synced too.
        case inPlace
        case inPlaceUnsynced
    }

    private func save(_ path: String, _ way: Way) throws {
        nextID += 1
        let size = random.chance(2) ? Self.largeSize : random.pick(Self.sizes)
        let state = FileState(id: nextID, size: size)
        let bytes = Pattern.bytes(of: state)
        let full = root + "/" + path
        let isNew = files[path] == nil
        switch way {
        case .aside, .asideUnsynced:
            let isSynced = way == .aside
            try perform((isSynced ? "f" : "u") + (isNew ? "" : "r"), [(path, state)]) {
                let temporary = full + ".new"
                try write(bytes, to: temporary, [.writeOnly, .create, .truncate], isSynced: isSynced)
                doing = "rename"
                try FileSystem.rename(temporary, to: full)
                doing = "fsync of the folder"
                if isSynced { try FileSystem.syncDirectory(Path.parent(of: full)) }
            }
        case .inPlace, .inPlaceUnsynced:
            let isSynced = way == .inPlace
            try perform(isSynced ? "fp" : "up", [(path, state)]) {
                try write(bytes, to: full, [.writeOnly, .create, .truncate], isSynced: isSynced)
                if isSynced, isNew { try FileSystem.syncDirectory(Path.parent(of: full)) }
            }
        }
    }

    private func write(
        _ bytes: [UInt8], to path: String, _ flags: FileDescriptor.Flags, isSynced: Bool
    ) throws {
        doing = "open"
        let file = try FileDescriptor.open(path, flags, mode: 0o644)
        doing = "write"
        for start in stride(from: 0, to: bytes.count, by: 128 * 1024) {
            try file.write(bytes[start..<min(start + 128 * 1024, bytes.count)], at: Int64(start))
        }
        doing = "fsync"
        if isSynced { try file.sync() }
    }

    /// Changes some blocks of an existing file.
    private func edit(_ path: String) throws {
        guard let state = files[path], state.edit < Self.maximumEdits, state.size > Pattern.blockSize else {
            return try save(path, .aside)
        }
        let file = try FileDescriptor.open(root + "/" + path, .writeOnly)
        var current = state
        for _ in 0...random.below(4) {
            current = current.next
            let (offset, bytes) = Pattern.bytes(ofEdit: current)
            let isSynced = random.chance(60)
            try perform(isSynced ? "f" : "u", [(path, current)]) {
                try file.write(bytes, at: Int64(offset))
                if isSynced { try file.sync() }
            }
        }
    }

    // MARK: Names

    private func remove(_ path: String) throws {
        guard files[path] != nil else { return try save(path, .aside) }
        let isSynced = random.chance(50)
        try perform(isSynced ? "f" : "u", [(path, nil)]) {
            try FileSystem.unlink(root + "/" + path)
            if isSynced { try FileSystem.syncDirectory(Path.parent(of: root + "/" + path)) }
        }
    }

    private func rename(_ old: String, to new: String) throws {
        guard let state = files[old], old != new else { return try save(old, .aside) }
        let isSynced = random.chance(50)
        try perform(isSynced ? "fa" : "ua", [(old, nil), (new, state)]) {
            try FileSystem.rename(root + "/" + old, to: root + "/" + new)
            guard isSynced else { return }
            // The renamed file may not be synced yet.
            try FileDescriptor.open(root + "/" + new, .readOnly).sync()
            for path in Set([old, new].map(Path.parent(of:))) { try FileSystem.syncDirectory(root + "/" + path) }
        }
    }

    private func renameFolder() throws {
        let place = random.below(Self.folderCount)
        let old = folderNames[place]
        let version = Int(old.drop { $0 != "-" }.dropFirst()) ?? 0
        let new = "d\(place)-\(version + 1)"
        let inside = files.filter { $0.key.hasPrefix("\(folder)/\(old)/") && !$0.key.hasSuffix(".new") }
        var changes = [(String, FileState?)]()
        for (path, state) in inside.sorted(by: { $0.key < $1.key }) {
            changes.append((path, nil))
            changes.append(("\(folder)/\(new)/" + path.dropFirst("\(folder)/\(old)/".count), state))
        }
        try perform("ua", changes) {
            try FileSystem.rename(root + "/\(folder)/" + old, to: root + "/\(folder)/" + new)
        }
        folderNames[place] = new
        for (path, _) in inside { files[path] = nil }
    }
}
