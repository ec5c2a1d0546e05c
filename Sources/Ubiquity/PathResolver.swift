import UbiquityCore

/// Finds the mounted container that a path is in, and the item's path in it, without opening or even looking at the
/// item: only symlinks on the way to it are read. A container whose daemon is dead is not asked anything.
package struct PathResolver {
    /// A place in a mounted container.
    package struct Location: Hashable, Sendable {
        package var mountPoint: [UInt8]
        /// The container's state folder, where the control socket is.
        package var stateFolder: [UInt8]
        /// From the container's root, without a slash in front; empty for the root.
        package var relativePath: [UInt8]

        package init(mountPoint: [UInt8], stateFolder: [UInt8], relativePath: [UInt8]) {
            self.mountPoint = mountPoint
            self.stateFolder = stateFolder
            self.relativePath = relativePath
        }
    }

    /// Symlinks followed in one path: the kernel's own limit (MAXSYMLINKS).
    static let maximumLinks = 40

    private let table: MountTable
    private let readLink: (_ path: [UInt8]) -> [UInt8]?
    private let isAlive: (MountTable.Entry) -> Bool

    /// - Parameters:
    ///   - readLink: A symlink's text; nil for what is not a symlink or cannot be looked at.
    ///   - isAlive: Whether a container's daemon can be asked about symlinks in it.
    package init(
        table: MountTable, readLink: @escaping (_ path: [UInt8]) -> [UInt8]?,
        isAlive: @escaping (MountTable.Entry) -> Bool
    ) {
        self.table = table
        self.readLink = readLink
        self.isAlive = isAlive
    }

    /// Where an absolute path leads, or nil if it is in no container. Symlinks to the item are followed outside of
    /// containers; in a container the last one is an item itself, unless a slash follows it.
    package func locate(_ path: [UInt8]) throws(UbiquityError) -> Location? {
        let resolved = try resolve(path)
        guard let entry = table.mount(containing: resolved), entry.isUbiquity else { return nil }
        let below = Self.components(Array(resolved.dropFirst(entry.mountPoint.count)))
        let root = Self.components(entry.root)
        return Location(
            mountPoint: entry.mountPoint, stateFolder: entry.source,
            relativePath: Array((root + below).joined(separator: [UInt8(ascii: "/")])))
    }

    /// The path without symlinks, "." and "..".
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

    /// The text of the symlink `name` in `folder`, if it is one that has to be followed.
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
