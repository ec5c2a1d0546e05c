/// The mounts that this process sees, as the kernel lists them in `/proc/self/mountinfo`.
///
/// The list is read without touching any of the file systems in it, so it can be had while one of them is dead.
package struct MountTable: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// The folder of the file system that is mounted here: "/", except for bind mounts of a part.
        package var root: [UInt8]
        package var mountPoint: [UInt8]
        package var fileSystemType: String
        /// For a container: the path of its state folder.
        package var source: [UInt8]

        /// Whether a container is mounted here.
        package var isUbiquity: Bool { fileSystemType == MountTable.fileSystemType }
    }

    /// What libfuse makes of `-o subtype=ubiquity`.
    package static let fileSystemType = "fuse.ubiquity"
    package static let path = "/proc/self/mountinfo"

    package var entries: [Entry]

    /// From the file's text. Lines of a form not known (none today) are left out.
    package init(parsing text: some Sequence<UInt8>) {
        entries = Array(text).split(separator: UInt8(ascii: "\n")).compactMap(Self.entry(line:))
    }

    /// The containers that are mounted; of several mounts on one folder only the last is to be seen.
    package var containers: [Entry] {
        entries.filter { entry in entry.isUbiquity && mount(containing: entry.mountPoint) == entry }
    }

    /// The mount that a path without symlinks, "." and ".." is in: the longest mount point above it, and of several
    /// on the same folder the last, which hides the others.
    package func mount(containing path: [UInt8]) -> Entry? {
        var best: Entry?
        for entry in entries where Self.contains(entry.mountPoint, path) {
            if entry.mountPoint.count >= best?.mountPoint.count ?? 0 { best = entry }
        }
        return best
    }

    /// Whether `path` is `folder` or in it.
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

    /// The kernel writes space, tab, newline and backslash as a backslash and three octal digits.
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
