internal import UbiquityCore
internal import UbiquityIndex

/// The effect of one user's operations on a tree, as simple as possible: the reference for worlds in which only one
/// device at a time changes something.
package struct ModelTree: Sendable {
    package enum Node: Hashable, Sendable {
        /// With all its names, if it has several.
        case file([UInt8], names: Set<String> = [])
        case folder
        case link(String)
    }

    /// By path.
    package private(set) var nodes: [String: Node] = [:]

    package init() {}

    package func isFolder(_ path: String) -> Bool { path.isEmpty || nodes[path] == .folder }

    private static func parent(of path: String) -> String {
        path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
    }

    /// Whether a new entry may be created there.
    package func isFree(_ path: String) -> Bool { nodes[path] == nil && isFolder(Self.parent(of: path)) }

    /// Creates an entry. The other names of a replaced file keep the old content.
    package mutating func put(_ path: String, _ node: Node) {
        takeName(path)
        nodes[path] = node
    }

    /// Changes a file in place, at all its names.
    package mutating func write(_ path: String, _ bytes: [UInt8]) {
        guard case .file(_, let names) = nodes[path] else { return }
        for name in names.union([path]) { nodes[name] = .file(bytes, names: names) }
    }

    package mutating func link(_ path: String, to old: String) {
        guard case .file(let bytes, let names) = nodes[old] else { return }
        set(names.union([old, path]), bytes)
    }

    package mutating func remove(_ path: String) {
        for below in nodes.keys where below == path || below.hasPrefix(path + "/") {
            takeName(below)
            nodes[below] = nil
        }
    }

    private mutating func takeName(_ path: String) {
        guard case .file(let bytes, let names) = nodes[path] else { return }
        set(names.subtracting([path]), bytes)
    }

    private mutating func set(_ names: Set<String>, _ bytes: [UInt8]) {
        for name in names { nodes[name] = .file(bytes, names: names.count > 1 ? names : []) }
    }

    /// Whether it is, or contains, a file of several names.
    package func hasLinks(in path: String) -> Bool {
        nodes.contains { node in
            guard node.key == path || node.key.hasPrefix(path + "/"), case .file(_, let names) = node.value else {
                return false
            }
            return !names.isEmpty
        }
    }

    /// Whether `rename` is allowed: not into itself, not over an entry, into an existing folder.
    package func canMove(_ old: String, to new: String) -> Bool {
        nodes[old] != nil && isFree(new) && new != old && !new.hasPrefix(old + "/")
    }

    package mutating func move(_ old: String, to new: String) {
        func moved(_ path: String) -> String {
            path == old || path.hasPrefix(old + "/") ? new + path.dropFirst(old.count) : path
        }
        var result: [String: Node] = [:]
        for (path, node) in nodes {
            if case .file(let bytes, let names) = node {
                result[moved(path)] = .file(bytes, names: Set(names.map(moved)))
            } else {
                result[moved(path)] = node
            }
        }
        nodes = result
    }
}

extension SimulatedDevice {
    /// The tree in the model's form, with every file read.
    package func modelTree() async throws -> [String: ModelTree.Node] {
        var result: [String: ModelTree.Node] = [:], names: [ItemKey: Set<String>] = [:]
        let paths = try paths().map { path, row in (path: path, row: try index.read { try $0.named(row) } ?? row) }
        for (path, row) in paths { names[row.key, default: []].insert(path) }
        for (path, row) in paths {
            result[path] =
                switch row.kind {
                case .file:
                    .file(try await read(path), names: names[row.key].flatMap { $0.count > 1 ? $0 : nil } ?? [])
                // Simulated programs make no special files.
                case .directory, .hardLink, .fifo, .socket, .characterDevice, .blockDevice: .folder
                case .symlink: .link(String(decoding: row.linkTarget, as: UTF8.self))
                }
        }
        return result
    }
}
