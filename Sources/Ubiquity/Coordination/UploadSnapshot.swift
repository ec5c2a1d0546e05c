import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Copies of items, taken for `.forUploading` reads. Later changes of the items do not reach them.
///
/// A file is copied; a folder or package becomes a zip archive of that name. All copies lie in one temporary folder.
struct UploadSnapshot: Sendable {
    /// Attempts to copy a file that programs without coordination keep changing.
    private static let maximumAttempts = 3

    /// The copies in the order of the items; items without a copy keep their URLs.
    let places: [URL]
    /// Nil if nothing was copied.
    private let folder: String?

    /// Copies the items that are read for uploading.
    ///
    /// - Throws: `.busy` if an item changes during each attempt, and errors of reading and writing.
    static func take(of places: [URL], for intents: [FileAccessIntent]) async throws -> UploadSnapshot {
        guard intents.contains(where: { $0.takesSnapshot }) else { return UploadSnapshot(places: places, folder: nil) }
        let folder = Path.temporary("ubiquity-upload-")
        let wanted = zip(places, intents).map { (place: $0, isCopied: $1.takesSnapshot) }
        do {
            let copies = try await FileAccess.waiting { try copy(wanted, into: folder) }
            return UploadSnapshot(places: copies, folder: folder)
        } catch {
            await remove(folder)
            throw error
        }
    }

    /// Copies each item into a folder of its own, so that equal names do not meet.
    private static func copy(_ items: [(place: URL, isCopied: Bool)], into folder: String) throws -> [URL] {
        try describing("make a folder for the snapshot", at: folder) { () throws(Errno) in
            try FileSystem.makeDirectory(folder, mode: 0o700)
        }
        var places = [URL]()
        for (index, item) in items.enumerated() {
            places.append(item.isCopied ? try copy(item.place, into: "\(folder)/\(index)") : item.place)
        }
        return places
    }

    func remove() async {
        if let folder { await Self.remove(folder) }
    }

    private static func remove(_ folder: String) async {
        // A folder that stays lies in the system's folder for temporary files, which the system cleans.
        try? await FileAccess.run { try FileSystem.removeTree(folder) }
    }

    private static func copy(_ place: URL, into folder: String) throws -> URL {
        let path = place.systemPath
        let status = try describing("examine the item", at: path) { () throws(Errno) in
            try FileSystem.makeDirectory(folder, mode: 0o700)
            return try FileSystem.statusFollowing(path)
        }
        let target = Path.join(folder, Path.name(of: path) + (status.isDirectory ? ".zip" : ""))
        try copy(path, status, to: target, attemptsLeft: maximumAttempts)
        return URL(filePath: target, directoryHint: .notDirectory)
    }

    /// Copies the item again if it changes meanwhile.
    private static func copy(
        _ path: String, _ status: FileStatus, to target: String, attemptsLeft: Int
    ) throws(UbiquityError) {
        do throws(UbiquityError) { try copy(path, status, to: target) } catch {
            guard error.code == .busy, attemptsLeft > 1 else { throw error }
            try copy(path, status, to: target, attemptsLeft: attemptsLeft - 1)
        }
    }

    private static func copy(_ path: String, _ status: FileStatus, to target: String) throws(UbiquityError) {
        let output = try describing("write the snapshot", at: target) { () throws(Errno) in
            try FileDescriptor.open(target, [.writeOnly, .create, .truncate])
        }
        if status.isDirectory {
            var archive = FolderArchive(output, place: target)
            return try archive.write(path)
        }
        guard status.isFile else {
            throw UbiquityError(.notSupported, "only files and folders have snapshots", at: path)
        }
        let isSame = try describing("copy the file", at: path) { () throws(Errno) in try copyFile(path, to: output) }
        guard isSame else { throw UbiquityError(.busy, "the file changes while it is copied", at: path) }
    }

    /// Returns whether the file stayed the same meanwhile.
    private static func copyFile(_ path: String, to target: FileDescriptor) throws(Errno) -> Bool {
        let source = try FileDescriptor.open(path, .readOnly)
        let before = try source.status()
        let copied = try target.copy(from: source, at: 0, to: 0, count: .max)
        try target.setTimes(accessed: nil, modified: before.modifiedAt)
        let after = try source.status()
        return copied == before.size && after.size == before.size && after.modifiedAt == before.modifiedAt
    }
}

extension FileAccessIntent {
    /// Whether the accessor gets a copy of the item.
    var takesSnapshot: Bool { use == .read && options.contains { ReadingOptions(named: $0) == .forUploading } }
}
