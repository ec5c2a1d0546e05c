internal import UbiquityCore
internal import UbiquityIndex

/// What one user alone makes of a tree, as simply as it can be said: the reference for worlds in which only one
/// device at a time does something.
package struct ModelTree: Sendable {
    package enum Node: Hashable, Sendable {
        case file([UInt8])
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

    /// Whether something new may be put there.
    package func isFree(_ path: String) -> Bool { nodes[path] == nil && isFolder(Self.parent(of: path)) }

    package mutating func put(_ path: String, _ node: Node) { nodes[path] = node }

    package mutating func remove(_ path: String) {
        for below in nodes.keys where below == path || below.hasPrefix(path + "/") { nodes[below] = nil }
    }

    /// Whether `rename` may do it: not into itself, not over something, into a folder that is there.
    package func canMove(_ old: String, to new: String) -> Bool {
        nodes[old] != nil && isFree(new) && new != old && !new.hasPrefix(old + "/")
    }

    package mutating func move(_ old: String, to new: String) {
        for (path, node) in nodes where path == old || path.hasPrefix(old + "/") {
            nodes[path] = nil
            nodes[new + path.dropFirst(old.count)] = node
        }
    }
}

extension SimulatedDevice {
    /// The tree as the model sees it, every file read.
    package func modelTree() async throws -> [String: ModelTree.Node] {
        var result: [String: ModelTree.Node] = [:]
        for (path, row) in try paths() {
            result[path] =
                switch row.kind {
                case .file: .file(try await read(path))
                // Simulated programs make no special files.
                case .directory, .fifo, .socket, .characterDevice, .blockDevice: .folder
                case .symlink: .link(String(decoding: row.linkTarget, as: UTF8.self))
                }
        }
        return result
    }
}
