/// A file, folder or symbolic link of a zip archive, described before its bytes are known.
package struct ZipEntry: Sendable {
    package enum Kind: Hashable, Sendable {
        /// Size in bytes. The content follows.
        case file(size: Int64)
        case folder
        case symlink(target: [UInt8])
    }

    /// The path in the archive; a folder's path ends with "/".
    let path: [UInt8]
    package let kind: Kind
    /// Seconds since 1970.
    let modified: Int64
    let isExecutable: Bool

    /// - Parameters:
    ///   - path: the names from the archive's top. An `ItemName` contains no "/" and is not "..". So no entry leaves
    ///     the folder it is unpacked in.
    /// - Throws: `ZipError` if the archive cannot hold such an entry.
    package init(
        _ path: [ItemName], _ kind: Kind, modified: Timestamp, isExecutable: Bool = false
    ) throws(ZipError) {
        guard !path.isEmpty else { throw .pathless }
        var bytes: [UInt8] = []
        for name in path {
            if !bytes.isEmpty { bytes.append(UInt8(ascii: "/")) }
            bytes += Self.safe(name)
        }
        if case .folder = kind { bytes.append(UInt8(ascii: "/")) }
        guard bytes.count <= ZipWriter.longestPath else { throw .pathTooLong(path) }
        if case .file(let size) = kind, size < 0 { throw .wrongSize(expected: size, actual: 0) }
        self.path = bytes
        self.kind = kind
        self.modified = modified.seconds
        self.isExecutable = isExecutable
    }

    /// The name without characters that some programs take for separators, or cannot write.
    ///
    /// A backslash separates folders on Windows: "..\..\x" would leave the folder. Each such character is replaced by
    /// the Unicode character that looks like it.
    private static func safe(_ name: ItemName) -> [UInt8] {
        guard name.bytes.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: "\\") }) else {
            return name.bytes
        }
        var text = String.UnicodeScalarView()
        for scalar in name.description.unicodeScalars {
            switch scalar {
            case "\\": text.append("\u{FF3C}")
            case "\u{7F}": text.append("\u{2421}")
            case _ where scalar.value < 0x20: text.append(Unicode.Scalar(0x2400 + scalar.value) ?? "_")
            default: text.append(scalar)
            }
        }
        return Array(String(text).utf8)
    }

    /// Content that the entry brings along: a symlink's target, nothing for folders and empty files. Nil for others.
    var ownContent: [UInt8]? {
        switch kind {
        case .file(let size): size == 0 ? [] : nil
        case .folder: []
        case .symlink(let target): target
        }
    }

    var size: UInt64 {
        switch kind {
        case .file(let size): UInt64(size)
        case .folder: 0
        case .symlink(let target): UInt64(target.count)
        }
    }

    /// Type and permissions as Unix has them. Owner and group are not in the archive.
    var mode: UInt32 {
        switch kind {
        case .file: isExecutable ? 0o100755 : 0o100644
        case .folder: 0o040755
        case .symlink: 0o120777
        }
    }
}

package enum ZipError: Error, Hashable, Sendable {
    /// An entry without a name.
    case pathless
    case pathTooLong([ItemName])
    /// A file has more or fewer bytes than its entry says.
    case wrongSize(expected: Int64, actual: Int64)
}
