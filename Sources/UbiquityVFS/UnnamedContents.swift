internal import UbiquityCore

/// The contents of files without a name, by inode. A content that is being named cannot be removed meanwhile.
struct UnnamedContents {
    private struct File {
        var content: ContentID
        var isBeingNamed = false
    }

    private var files: [UInt64: File] = [:]

    func has(_ ino: UInt64) -> Bool { files[ino] != nil }
    func has(_ content: ContentID) -> Bool { files.values.contains { $0.content == content } }

    mutating func add(_ content: ContentID, of ino: UInt64) { files[ino] = File(content: content) }

    /// - Returns: false if the content is gone, or another call is naming it.
    mutating func beginNaming(_ ino: UInt64) -> Bool {
        guard let file = files[ino], !file.isBeingNamed else { return false }
        files[ino]?.isBeingNamed = true
        return true
    }

    mutating func endNaming(_ ino: UInt64, isNamed: Bool) {
        if isNamed { files[ino] = nil } else { files[ino]?.isBeingNamed = false }
    }

    /// - Returns: the content, which is no longer needed; nil if there is none.
    mutating func remove(_ ino: UInt64) -> ContentID? {
        guard let file = files[ino], !file.isBeingNamed else { return nil }
        files[ino] = nil
        return file.content
    }

    mutating func removeAll() -> [ContentID] { Array(files.keys).compactMap { remove($0) } }
}
