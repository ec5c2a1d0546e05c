internal import UbiquityCore
internal import UbiquitySystem

/// Which of the store's folders a content lies in.
///
/// A folder takes 1,024 numbers, then the next one does, and after the last the first again: what is made one after
/// the other lies together, as in any folder. On ext4 each folder is put where there is room, not beside the others
/// (`spreads`): a new file is looked for from the beginning of its folder's block group, and where many were deleted
/// lately without a journal each of those is looked at; with all in one group that took half of a create's time
/// (measured).
struct ContentFolders {
    /// Of a content's number, in one folder: 10 bits. 0 in stores of before, which have their folders beside each
    /// other, named by two digits.
    private let shift: Int
    let names: [String]

    init(count: Int, isOld: Bool) {
        shift = isOld ? 0 : 10
        names = (0..<count).map { number in
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: (isOld ? 2 : 3) - digits.count) + digits
        }
    }

    /// Whether the store is one of before. One that has folders of both kinds was opened by a program of before, which
    /// found nothing in it.
    static func isOld(in folder: String) throws(Errno) -> Bool {
        guard try FileSystem.exists(Path.join(folder, "00")) else { return false }
        return try !FileSystem.exists(Path.join(folder, "000"))
    }

    func number(of id: ContentID) -> Int { Int(UInt8(truncatingIfNeeded: id.rawValue >> shift)) % names.count }

    /// Has folders that are made in this one from now on put in places of their own. A hint: where the file system
    /// knows none of it they lie as ever.
    static func spread(in folder: String) {
        guard let directory = try? FileDescriptor.open(folder, [.readOnly, .directory]) else { return }
        try? directory.spreadFolders()
    }
}
