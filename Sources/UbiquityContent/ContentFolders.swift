internal import UbiquityCore
internal import UbiquitySystem

/// Maps contents to the store's folders.
///
/// 1,024 consecutive numbers share a folder, then the next folder follows, and the first one after the last. So
/// contents created together lie together. The folders are spread over the disk (`spread`), because ext4 searches for a
/// new file's inode from the start of the folder's block group. Without a journal it examines every recently deleted
/// inode there. With all folders in one group that took half the time of a create (measured).
struct ContentFolders {
    /// The number of bits of a content's number within one folder: 10. It is 0 in stores of the old format, whose
    /// two-digit folders are not spread.
    private let shift: Int
    let names: [String]

    init(count: Int, isOld: Bool) {
        shift = isOld ? 0 : 10
        names = (0..<count).map { number in
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: (isOld ? 2 : 3) - digits.count) + digits
        }
    }

    /// Whether the store has the old format. A store with folders of both kinds has the new one: an old program opened
    /// it and found nothing in it.
    static func isOld(in folder: String) throws(Errno) -> Bool {
        guard try FileSystem.exists(Path.join(folder, "00")) else { return false }
        return try !FileSystem.exists(Path.join(folder, "000"))
    }

    func number(of id: ContentID) -> Int { Int(UInt8(truncatingIfNeeded: id.rawValue >> shift)) % names.count }

    /// Asks the file system to spread new folders over the disk. A hint: file systems without support ignore it.
    static func spread(in folder: String) {
        guard let directory = try? FileDescriptor.open(folder, [.readOnly, .directory]) else { return }
        try? directory.spreadFolders()
    }
}
