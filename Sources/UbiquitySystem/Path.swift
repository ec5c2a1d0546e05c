/// Operations on the text of paths; nothing here accesses a file.
package enum Path {
    /// Returns everything before the last name: "/a/b" gives "/a", "/a" gives "/", "a" gives ".".
    package static func parent(of path: String) -> String {
        let trimmed = withoutTrailingSlashes(path)
        guard let slash = trimmed.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
        let parent = withoutTrailingSlashes(String(trimmed[..<slash]))
        return parent.isEmpty ? "/" : parent
    }

    /// Returns the last name: "/a/b" gives "b", "/" gives "/".
    package static func name(of path: String) -> String {
        let trimmed = withoutTrailingSlashes(path)
        guard let slash = trimmed.utf8.lastIndex(of: UInt8(ascii: "/")), trimmed != "/" else { return trimmed }
        return String(trimmed[trimmed.utf8.index(after: slash)...])
    }

    package static func join(_ directory: String, _ name: String) -> String {
        directory.utf8.last == UInt8(ascii: "/") ? directory + name : directory + "/" + name
    }

    package static func join(_ directory: [UInt8], _ name: [UInt8]) -> [UInt8] {
        directory.last == UInt8(ascii: "/") ? directory + name : directory + [UInt8(ascii: "/")] + name
    }

    /// A new name in the folder for temporary files (`$TMPDIR`, else "/tmp"). Nothing is made there.
    package static func temporary(_ prefix: String) -> String {
        let folder = ProcessHost.variable("TMPDIR").flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "/tmp"
        return join(folder, prefix + String(SystemRandom().next(), radix: 36))
    }

    private static func withoutTrailingSlashes(_ path: String) -> String {
        var end = path.utf8.endIndex
        while end > path.utf8.startIndex {
            let last = path.utf8.index(before: end)
            guard path.utf8[last] == UInt8(ascii: "/"), last > path.utf8.startIndex else { break }
            end = last
        }
        return String(path[..<end])
    }
}
