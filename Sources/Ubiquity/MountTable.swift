/// The mounts this process sees, from the kernel's list in `/proc/self/mountinfo`.
///
/// Reading the list does not touch the file systems in it, so it works while one of them is dead.
package struct MountTable: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// The folder of the file system that is mounted here: "/", except for bind mounts of a part.
        package var root: [UInt8]
        package var mountPoint: [UInt8]
        package var fileSystemType: String
        /// For a container: the path of its state folder.
        package var source: [UInt8]

        /// Whether this mount is a container.
        package var isUbiquity: Bool { fileSystemType == MountTable.fileSystemType }
    }

    /// The type that libfuse makes of `-o subtype=ubiquity`.
    package static let fileSystemType = "fuse.ubiquity"
    package static let path = "/proc/self/mountinfo"

    package var entries: [Entry]

    /// Parses the file's text. Lines of an unknown form (none today) are left out.
    package init(parsing text: some Sequence<UInt8>) {
        entries = Array(text).split(separator: UInt8(ascii: "\n")).compactMap(Self.entry(line:))
    }

    /// The mounted containers. Of several mounts on one folder only the last is visible.
    package var containers: [Entry] {
        entries.filter { entry in entry.isUbiquity && mount(containing: entry.mountPoint) == entry }
    }

    /// Returns the mount that holds a path without symlinks, "." and "..": the longest mount point above it. Of several
    /// on the same folder the last hides the others.
    package func mount(containing path: [UInt8]) -> Entry? {
        var best: Entry?
        for entry in entries where Self.contains(entry.mountPoint, path) {
            if entry.mountPoint.count >= best?.mountPoint.count ?? 0 { best = entry }
        }
        return best
    }

    /// Returns whether `path` is `folder` or lies in it.
    static func contains(_ folder: [UInt8], _ path: [UInt8]) -> Bool {
        if folder == [UInt8(ascii: "/")] { return path.first == UInt8(ascii: "/") }
        guard path.starts(with: folder) else { return false }
        return path.count == folder.count || path[folder.count] == UInt8(ascii: "/")
    }

    /// `36 35 98:0 /root /mount/point options optional… - type source superoptions`: see proc(5).
    private static func entry(line: ArraySlice<UInt8>) -> Entry? {
        let fields = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard let dash = fields.firstIndex(of: [UInt8(ascii: "-")]), dash >= 6, fields.count > dash + 2 else {
            return nil
        }
        return Entry(
            root: unescaped(fields[3]), mountPoint: unescaped(fields[4]),
            fileSystemType: String(decoding: unescaped(fields[dash + 1]), as: UTF8.self),
            source: unescaped(fields[dash + 2]))
    }

    /// Decodes a field. The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
    static func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var result = [UInt8]()
        var rest = text
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3)
            if byte == UInt8(ascii: "\\"), digits.count == 3, let value = octal(digits) {
                result.append(value)
                rest = rest.dropFirst(3)
            } else {
                result.append(byte)
            }
        }
        return result
    }

    private static func octal(_ digits: ArraySlice<UInt8>) -> UInt8? {
        var value = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "7")).contains(digit) else { return nil }
            value = value * 8 + Int(digit - UInt8(ascii: "0"))
        }
        return UInt8(exactly: value)
    }
}
