internal import UbiquityCore
internal import UbiquitySystem

/// The state of a disk after a power loss: of every file and every name the synced state, and of unsynced changes a
/// part that the seed decides.
struct DiskImage {
    /// The fate of unsynced changes.
    private enum Survival: CaseIterable {
        case nothing
        /// The names, but not the bytes: the result of file systems with delayed allocation.
        case names
        case some
    }

    /// Files are written in pieces of this size.
    private static let block = 4096

    private let disk: SimulatedDisk
    private let survival: Survival
    /// Folders that are already placed: none appears twice, wherever it was moved.
    private let placed = Lock<Set<UInt64>>([])
    private var random: SeededRandom { disk.random }

    init(_ disk: SimulatedDisk) {
        self.disk = disk
        survival = disk.random.pick(Survival.allCases)
    }

    func write(to new: String) throws { try write(disk.folder, to: new) }

    private func write(_ old: String, to new: String) throws {
        try FileSystem.makeDirectories(new)
        let present = Self.names(old)
        let inode = try FileSystem.status(old).inode
        let durable = disk.state.withLock { $0.folders[inode] } ?? present
        for name in Set(present.keys).union(durable.keys).sorted() where !Self.isVolatile(name) {
            let chosen = present[name] == durable[name] || keepsName() ? present[name] : durable[name]
            guard let chosen else { continue }
            let path = "\(old)/\(name)"
            let isHere = present[name] == chosen
            if try isHere ? FileSystem.status(path).isDirectory : isFolder(chosen) {
                try writeFolder(chosen, isHere ? path : nil, to: "\(new)/\(name)")
            } else {
                try writeFile(bytes(chosen, isHere ? path : nil), isHere ? path : nil, to: "\(new)/\(name)")
            }
        }
    }

    /// A folder is recorded when it leaves its name.
    private func isFolder(_ inode: UInt64) -> Bool { disk.state.withLock { $0.folders[inode] != nil } }

    /// A folder that was moved is placed at its new name; a removed one is empty.
    private func writeFolder(_ inode: UInt64, _ path: String?, to new: String) throws {
        guard placed.withLock({ $0.insert(inode).inserted }) else { return }
        var found = path
        if found == nil {
            Self.walk(disk.folder) { path, status in if status.isDirectory, status.inode == inode { found = path } }
        }
        if let found { try write(found, to: new) } else { try FileSystem.makeDirectories(new) }
    }

    private func keepsName() -> Bool {
        switch survival {
        case .nothing: false
        case .names: true
        case .some: random.chance(0.5)
        }
    }

    private func bytes(_ inode: UInt64, _ path: String?) -> [UInt8] {
        guard let file = disk.state.withLock({ $0.files[inode] }) else { return path.map(Self.bytes) ?? [] }
        guard file.isChanged, survival == .some, let path, random.chance(0.7) else { return file.durable }
        let present = Self.bytes(path)
        if random.chance(0.3) { return present }
        return torn(file.durable, present)
    }

    /// Some blocks of the new content, some of the old.
    private func torn(_ old: [UInt8], _ new: [UInt8]) -> [UInt8] {
        var result = random.chance(0.5) ? new : Array(new.prefix(old.count))
        for start in stride(from: 0, to: result.count, by: Self.block) where random.chance(0.5) {
            for position in start..<min(start + Self.block, result.count) {
                result[position] = position < old.count ? old[position] : 0
            }
        }
        return result
    }

    /// An unchanged file has its time. If a part of a file is missing, its time did not reach the disk either.
    private func writeFile(_ bytes: [UInt8], _ original: String?, to path: String) throws {
        let file = try FileDescriptor.open(path, [.readWrite, .create])
        try file.write(bytes, at: 0)
        guard let original else { return }
        let last = try FileSystem.status(original).modifiedAt
        let time = Self.bytes(original) == bytes ? last : last.advanced(bySeconds: -1)
        try file.setTimes(accessed: nil, modified: time)
    }

    // MARK: Reading folders

    /// SQLite's shared memory file is not on the disk.
    private static func isVolatile(_ name: String) -> Bool { name.hasSuffix("-shm") }

    /// Copies a folder as it is.
    static func copy(_ old: String, to new: String) throws {
        try FileSystem.makeDirectories(new)
        for entry in try FileSystem.entries(of: old) where !isVolatile(entry.text) {
            let path = "\(old)/\(entry.text)", target = "\(new)/\(entry.text)"
            if entry.kind == .directory {
                try copy(path, to: target)
            } else {
                let source = try FileDescriptor.open(path, .readOnly)
                let status = try source.status()
                let file = try FileDescriptor.open(target, [.readWrite, .create])
                try file.write(source.read(count: Int(status.size), at: 0), at: 0)
                try file.setTimes(accessed: nil, modified: status.modifiedAt)
            }
        }
    }

    static func bytes(_ path: String) -> [UInt8] {
        guard let file = try? FileDescriptor.open(path, .readOnly), let size = try? file.status().size else { return [] }
        return (try? file.read(count: Int(size), at: 0)) ?? []
    }

    static func names(_ path: String) -> [String: UInt64] {
        let entries = (try? FileSystem.entries(of: path)) ?? []
        return Dictionary(entries.map { ($0.text, $0.inode) }) { first, _ in first }
    }

    /// Updates a copy of a file's bytes.
    static func bring(_ bytes: inout [UInt8], upTo path: String, changed: [Range<Int>]) {
        guard let file = try? FileDescriptor.open(path, .readOnly), let status = try? file.status() else { return }
        let size = Int(status.size)
        if bytes.count > size { bytes.removeLast(bytes.count - size) }
        if bytes.count < size { bytes += [UInt8](repeating: 0, count: size - bytes.count) }
        for range in changed {
            let range = range.clamped(to: 0..<size)
            guard !range.isEmpty, let new = try? file.read(count: range.count, at: Int64(range.lowerBound)) else {
                continue
            }
            // Copied as memory: element by element a large log takes longer than everything else.
            bytes.withUnsafeMutableBytes { target in
                new.withUnsafeBytes { source in
                    UnsafeMutableRawBufferPointer(rebasing: target[range.lowerBound...]).copyMemory(from: source)
                }
            }
        }
    }

    static func walk(_ path: String, _ visit: (String, FileStatus) -> Void) {
        guard let status = try? FileSystem.status(path) else { return }
        visit(path, status)
        guard status.isDirectory else { return }
        for name in names(path).keys.sorted() { walk("\(path)/\(name)", visit) }
    }
}
