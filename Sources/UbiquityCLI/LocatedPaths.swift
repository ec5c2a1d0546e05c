import Ubiquity
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The paths of a command line, grouped by mount.
struct LocatedPaths {
    struct Item {
        /// As typed on the command line.
        var typed: String
        var location: PathResolver.Location

        var relativePath: String { String(decoding: location.relativePath, as: UTF8.self) }
    }

    /// Each mount's state folder with its items, in the order of the command line.
    private(set) var mounts: [(stateFolder: String, items: [Item])] = []
    /// Paths that do not exist, or are outside the device's mounted containers.
    private(set) var elsewhere: [ItemResult] = []

    /// - Parameter needsAll: whether one path outside fails the whole command.
    /// - Throws: the error of one path or, unless `needsAll`, of the first path if all have one: `MountUnreachable` for
    ///   a path outside, `UbiquityError` `.notFound` for one that does not exist.
    init(_ paths: [String], _ state: StateOptions, needsAll: Bool = false) throws {
        // One resolver for all paths: it asks each daemon once whether it answers.
        let resolver = MountFinder.resolver(try MountFinder.table())
        var first: (any Error)?
        for path in paths {
            let item: Item
            do { item = Item(typed: path, location: try state.locate(path, by: resolver)) } catch {
                guard !needsAll, let failure = Self.failure(error) else { throw error }
                first = first ?? error
                elsewhere.append(ItemResult(path: path, error: ControlFailure(failure)))
                continue
            }
            let folder = String(decoding: item.location.stateFolder, as: UTF8.self)
            if let known = mounts.firstIndex(where: { $0.stateFolder == folder }) {
                mounts[known].items.append(item)
            } else {
                mounts.append((folder, [item]))
            }
        }
        if mounts.isEmpty, let first { throw first }
    }

    /// The error of one path, beside which the others are still processed. Nil if the whole command fails.
    private static func failure(_ error: any Error) -> UbiquityError? {
        switch error {
        case let error as MountUnreachable: UbiquityError(.invalid, error.reason)
        // The result names the path.
        case let error as UbiquityError where error.code == .notFound: UbiquityError(.notFound, error.message)
        default: nil
        }
    }

    /// Calls `body` for each mount in turn.
    func forEachMount(_ body: (DaemonConnection, [Item]) async throws -> Void) async throws {
        for mount in mounts {
            try await Daemon.connected(to: mount.stateFolder) { try await body($0, mount.items) }
        }
    }

    /// A daemon's path as the user would write it: in terms of a typed path that equals or contains it.
    static func shown(_ path: String, among items: [Item]) -> String {
        guard let best = item(of: path, among: items) else { return path }
        var rest = String(decoding: path.utf8.dropFirst(best.relativePath.utf8.count), as: UTF8.self)
        if rest.utf8.first == UInt8(ascii: "/") { rest.removeFirst() }
        return rest.isEmpty ? best.typed : Path.join(best.typed, rest)
    }

    /// The innermost item of the command line that equals or contains a path.
    static func item(of path: String, among items: [Item]) -> Item? {
        var best: Item?
        for item in items where contains(item.relativePath, path) {
            if item.relativePath.utf8.count >= best?.relativePath.utf8.count ?? 0 { best = item }
        }
        return best
    }

    private static func contains(_ folder: String, _ path: String) -> Bool {
        let folder = Array(folder.utf8)
        let path = Array(path.utf8)
        guard path.starts(with: folder) else { return false }
        return folder.isEmpty || path.count == folder.count || path[folder.count] == UInt8(ascii: "/")
    }
}

/// Connections that are closed on every exit.
enum Daemon {
    static func connected<Value>(
        to stateFolder: String, _ body: (DaemonConnection) async throws -> Value
    ) async throws -> Value {
        let connection = try DaemonConnection(stateFolder: stateFolder)
        do {
            try await connection.requireAnswer()
            let value = try await body(connection)
            await connection.close()
            return value
        } catch {
            await connection.close()
            throw error
        }
    }
}
