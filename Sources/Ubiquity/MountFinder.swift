import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Finds the mount of a path on this machine.
package enum MountFinder {
    /// Maximum bytes of `/proc/self/mountinfo`: 100,000 mounts (the kernel's default limit, `fs.mount-max`) of 160
    /// bytes.
    private static let maximumTableLength = 16 * 1024 * 1024

    /// Returns the current mounts.
    package static func table() throws(UbiquityError) -> MountTable {
        MountTable(parsing: try SmallFile.read(MountTable.path, limit: maximumTableLength) ?? [])
    }

    /// Returns the mounted container that holds a path (absolute, or relative to the working directory).
    ///
    /// - Parameter resolver: Nil for a resolver used only for this path.
    /// - Throws: `UbiquityError` `.notFound` if nothing is at the path, and `MountUnreachable` if the item is in no
    ///   container.
    package static func locate(_ path: String, by resolver: PathResolver? = nil) throws -> PathResolver.Location {
        guard let location = try find(path, by: resolver) else {
            // A path that cannot be examined may exist.
            let isThere = (try? FileSystem.exists(absolute(path))) ?? true
            guard isThere else { throw UbiquityError(.notFound, "no such file or folder", at: path) }
            throw MountUnreachable(path, "not in a mounted container")
        }
        return location
    }

    /// Returns the same as `locate`, but nil if no container holds the path.
    package static func find(_ path: String, by resolver: PathResolver? = nil) throws -> PathResolver.Location? {
        try (resolver ?? Self.resolver(table())).locate(absolute(path))
    }

    /// Returns the path from the root of the file system; "." and ".." stay in it.
    package static func absolute(_ path: String) throws(UbiquityError) -> [UInt8] {
        let bytes = Array(path.utf8)
        if bytes.first == UInt8(ascii: "/") { return bytes }
        let folder = try describing("find the working directory") { () throws(Errno) in
            try ProcessHost.workingDirectory()
        }
        return Path.join(folder, bytes)
    }

    package static func resolver(_ table: MountTable) -> PathResolver {
        var answers: [[UInt8]: Bool] = [:]
        return PathResolver(
            table: table,
            // A path that cannot be read as a symlink is not followed. Its later use reports whether it exists.
            readLink: { try? FileSystem.readLink($0) },
            // Reading a link through a stopped daemon would block until it resumes, and no signal interrupts that.
            isAlive: { container in
                if let known = answers[container.source] { return known }
                guard !isForbidden(stateFolder: container.source) else { return false }
                let socket = socket(in: container.source)
                let isAlive = LocalSocket.answers(socket, within: Int32(DaemonConnection.answerTimeout) * 1000)
                answers[container.source] = isAlive
                return isAlive
            })
    }

    private static func socket(in stateFolder: [UInt8]) -> String {
        String(decoding: stateFolder, as: UTF8.self) + "/" + ControlRoute.socketName
    }

    /// Returns why a container's daemon must not be asked because it is another user's; nil if it is this user's.
    package static func refusal(stateFolder: [UInt8]) -> String? {
        DaemonOwner.refusal(stateFolder: String(decoding: stateFolder, as: UTF8.self))
    }

    /// Returns whether a container belongs to another user.
    package static func isForbidden(stateFolder: [UInt8]) -> Bool { refusal(stateFolder: stateFolder) != nil }

    /// Returns whether the daemon of a container listens at its socket.
    package static func isAlive(stateFolder: [UInt8]) -> Bool {
        LocalSocket.isListening(socket(in: stateFolder))
    }
}
