package import UbiquityCore
internal import UbiquitySystem

// Lists the files in the store's folders.
extension ContentStore {
    /// Every content that has a file, in no order. Other files in the folders are foreign and are left alone
    /// (`strayFiles`).
    package func all() throws(UbiquityError) -> [ContentID] {
        var found = [ContentID]()
        try forEachName { _, _, content in content.map { found.append($0) } }
        return found
    }

    /// Paths, relative to the store's folder, of everything that is neither a content in its place nor an empty folder.
    /// A symbolic link counts as stray, and its target is not followed. If the store's folder itself is a link, other
    /// files beside the contents are left alone.
    package func strayFiles() throws(UbiquityError) -> [String] {
        var found = [String]()
        try describing("list the store", at: directory) { () throws(Errno) in
            let isOwn = try FileSystem.status(directory).isDirectory, names = Set(folders.names)
            for entry in try FileSystem.entries(of: directory) {
                let path = Path.join(directory, entry.text)
                if names.contains(entry.text) {
                    if try !FileSystem.status(path).isDirectory { found.append(entry.text) }
                } else if isOwn, try !isEmptyFolder(path) {
                    found.append(entry.text)
                }
            }
        }
        try forEachName { folder, name, content in
            if content == nil { found.append(Path.join(folder, String(decoding: name, as: UTF8.self))) }
        }
        return found.sorted()
    }

    private func isEmptyFolder(_ path: String) throws(Errno) -> Bool {
        guard try FileSystem.status(path).kind == .directory else { return false }
        return try FileSystem.entries(of: path).isEmpty
    }

    /// Calls `body` with each folder's name, each name in it, and the content of that name.
    private func forEachName(
        _ body: (_ folder: String, _ name: UnsafeRawBufferPointer, _ content: ContentID?) -> Void
    ) throws(UbiquityError) {
        for (number, folder) in folders.names.enumerated() {
            let path = Path.join(directory, folder)
            try describing("list the contents", at: path) { () throws(Errno) in
                guard try FileSystem.status(path).isDirectory else { return }
                try FileSystem.forEachName(in: path) { name in
                    let content = ContentID(fileName: name)
                    let isInPlace = content.map { folders.number(of: $0) == number } ?? false
                    body(folder, name, isInPlace ? content : nil)
                }
            }
        }
    }
}

extension ContentID {
    /// Parses a file name, or returns nil unless it is spelled as by `description`. Works without a string, since a
    /// start reads a million names.
    fileprivate init?(fileName: UnsafeRawBufferPointer) {
        guard (1...16).contains(fileName.count), fileName[0] != UInt8(ascii: "0") || fileName.count == 1 else {
            return nil
        }
        var number: UInt64 = 0
        for byte in fileName {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): number = number << 4 | UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): number = number << 4 | UInt64(byte - UInt8(ascii: "a") + 10)
            default: return nil
            }
        }
        guard let number = Int64(exactly: number) else { return nil }
        self.init(number)
    }
}
