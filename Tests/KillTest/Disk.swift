import Foundation
import Glibc

/// A disk that forgets: ext4 on a loop device over `block-recorder`, which records writes and flushes.
final class Disk {
    let world: World
    /// Where the file system is mounted.
    let mountPoint: String
    private let folder: String
    private var recorder: Program?
    private var loop: String?
    /// Bytes of the disk: the file system's journal takes 16 MiB, and the load some 50.
    private static let size = 384 << 20

    init(_ world: World, name: String) throws {
        self.world = world
        folder = "\(world.folder)/\(name)"
        mountPoint = folder + "/mounted"
        for path in [mountPoint, folder + "/device"] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        }
    }

    var base: String { folder + "/base" }
    private var image: String { folder + "/image" }
    private var log: String { folder + "/log" }
    var position: String { folder + "/device/position" }

    /// An empty file system.
    func format() throws {
        guard FileManager.default.createFile(atPath: base, contents: nil), truncate(base, off_t(Self.size)) == 0
        else { throw Trouble("cannot create \(base)") }
        try world.run(
            "/usr/sbin/mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", base)
    }

    // MARK: Recording

    /// Mounts the file system of `base` and records every write to it.
    func record(recorderProgram: String) throws {
        try world.run("/bin/cp", "--sparse=always", base, image)
        let recorder = try world.start(recorderProgram, image, log, folder + "/device")
        self.recorder = recorder
        try world.wait("the recorder runs") { FileManager.default.fileExists(atPath: position) }
        try attach(folder + "/device/disk")
    }

    private func attach(_ file: String) throws {
        let loop = try world.run("/usr/sbin/losetup", "-f", "--show", file)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        self.loop = loop
        try world.run("/bin/mount", "-t", "ext4", loop, mountPoint)
    }

    /// The number of records.
    func currentPosition() throws -> Int {
        let text = try String(contentsOfFile: position, encoding: .utf8)
        return Int(text.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
    }

    /// Detaches the disk. The writes of the unmount come after every cut.
    func detach() throws {
        try unmount(mountPoint)
        if let loop { try world.run("/usr/sbin/losetup", "-d", loop) }
        loop = nil
        guard let recorder else { return }
        // The loop device releases its file a moment after the request.
        try unmount(folder + "/device")
        try recorder.end(within: 10)
        self.recorder = nil
    }

    /// Waits until the mount is unused, then unmounts it. Does nothing if nothing is mounted there.
    private func unmount(_ path: String) throws {
        try world.wait("\(path) is unmounted") { umount2(path, 0) != 0 && errno == EINVAL }
    }

    // MARK: After the cut

    /// The fate of the writes after the last flush.
    enum Fate: String, CaseIterable {
        case allLost, allKept, someLost
    }

    /// Writes into `base` the state that a power loss at that position leaves.
    func makeState(at cut: Int, _ fate: Fate, random: inout Random, into target: String) throws {
        try world.run("/bin/cp", "--sparse=always", base, target)
        let log = try Records(self.log)
        let records = log.records.prefix(cut)
        let lastFlush = records.lastIndex { $0.isFlush } ?? 0
        let file = try FileHandle(forUpdating: URL(filePath: target))
        defer { try? file.close() }
        for (number, record) in records.enumerated() where !record.isFlush {
            let isKept = number < lastFlush || fate == .allKept || fate == .someLost && random.chance(50)
            guard isKept else { continue }
            try file.seek(toOffset: record.offset)
            try file.write(contentsOf: log.bytes(of: record))
        }
    }

    /// Mounts a state of `makeState`.
    func mount(_ state: String) throws { try attach(state) }
}

/// The records of `block-recorder`'s log.
struct Records {
    struct Record {
        var isFlush: Bool
        var offset: UInt64
        var place: Int
        var length: Int
    }

    private let data: Data
    private(set) var records: [Record] = []
    private static let headSize = 24

    init(_ path: String) throws {
        data = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
        data.withUnsafeBytes { buffer in
            var place = 0
            while place + Self.headSize <= buffer.count {
                func word(_ index: Int) -> UInt64 { buffer.loadUnaligned(fromByteOffset: place + index * 8, as: UInt64.self) }
                let length = Int(word(2))
                guard place + Self.headSize + length <= buffer.count else { break }
                records.append(
                    Record(isFlush: word(0) == 2, offset: word(1), place: place + Self.headSize, length: length))
                place += Self.headSize + length
            }
        }
    }

    func bytes(of record: Record) -> Data { data[record.place..<record.place + record.length] }
}
