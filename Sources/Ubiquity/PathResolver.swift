import UbiquityCore

/// Finds the mounted container that holds a path, and the item's path in it. It reads only the symlinks on the way and
/// never touches the item. It reads no links in a container whose daemon is dead.
package struct PathResolver {
    /// A place in a mounted container.
    package struct Location: Hashable, Sendable {
        package var mountPoint: [UInt8]
        /// The container's state folder, which contains the control socket.
        package var stateFolder: [UInt8]
        /// The path from the container's root, without a leading slash; empty for the root.
        package var relativePath: [UInt8]

        package init(mountPoint: [UInt8], stateFolder: [UInt8], relativePath: [UInt8]) {
            self.mountPoint = mountPoint
            self.stateFolder = stateFolder
            self.relativePath = relativePath
        }
    }

    /// Maximum symlinks followed in one path: the kernel's own limit (MAXSYMLINKS).
    static let maximumLinks = 40

    private let table: MountTable
    private let readLink: (_ path: [UInt8]) -> [UInt8]?
    private let isAlive: (MountTable.Entry) -> Bool

    /// - Parameters:
    ///   - readLink: Returns a symlink's text; nil if the path is not a symlink or cannot be examined.
    ///   - isAlive: Returns whether symlinks in a container can be read: its daemon answers.
    package init(
        table: MountTable, readLink: @escaping (_ path: [UInt8]) -> [UInt8]?,
        isAlive: @escaping (MountTable.Entry) -> Bool
    ) {
        self.table = table
        self.readLink = readLink
        self.isAlive = isAlive
    }

    /// Returns where an absolute path leads; nil if no container holds it. Outside of containers all symlinks are
    /// followed. In a container the last component is an item itself, even a symlink, unless a slash follows it.
    ///
    /// - Throws: `.invalid` if the path has too many symlinks.
    package func locate(_ path: [UInt8]) throws(UbiquityError) -> Location? {
        let resolved = try resolve(path)
        guard let entry = table.mount(containing: resolved), entry.isUbiquity else { return nil }
        let below = Self.components(Array(resolved.dropFirst(entry.mountPoint.count)))
        let root = Self.components(entry.root)
        return Location(
            mountPoint: entry.mountPoint, stateFolder: entry.source,
            relativePath: Array((root + below).joined(separator: [UInt8(ascii: "/")])))
    }

    /// Returns the path without symlinks, "." and "..".
    func resolve(_ path: [UInt8]) throws(UbiquityError) -> [UInt8] {
        var resolved = [[UInt8]]()
        var pending = Array(Self.components(path).reversed())
        var links = 0
        let followsLast = path.last == UInt8(ascii: "/")
        while let component = pending.popLast() {
            if component == Array(".".utf8) { continue }
            if component == Array("..".utf8) {
                _ = resolved.popLast()
                continue
            }
            let isLast = pending.isEmpty && !followsLast
            guard let target = link(component, in: resolved, isLast: isLast) else {
                resolved.append(component)
                continue
            }
            links += 1
            guard links <= Self.maximumLinks else {
                throw UbiquityError(.invalid, "too many symlinks", at: String(decoding: path, as: UTF8.self))
            }
            if target.first == UInt8(ascii: "/") { resolved = [] }
            pending += Self.components(target).reversed()
        }
        return Self.path(resolved)
    }

    /// Returns the text of the symlink `name` in `folder` if it must be followed; otherwise nil.
    private func link(_ name: [UInt8], in folder: [[UInt8]], isLast: Bool) -> [UInt8]? {
        let path = Self.path(folder + [name])
        guard let entry = table.mount(containing: Self.path(folder)), entry.isUbiquity else { return readLink(path) }
        return isLast || !isAlive(entry) ? nil : readLink(path)
    }

    private static func components(_ path: [UInt8]) -> [[UInt8]] {
        path.split(separator: UInt8(ascii: "/")).map(Array.init)
    }

    private static func path(_ components: [[UInt8]]) -> [UInt8] {
        [UInt8(ascii: "/")] + Array(components.joined(separator: [UInt8(ascii: "/")]))
    }
}
