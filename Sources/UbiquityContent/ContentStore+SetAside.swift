package import UbiquityCore
internal import UbiquitySystem

// Sets untrusted files aside instead of deleting them: somebody may want to examine them.
extension ContentStore {
    /// The folder of set-aside files, in the state folder.
    package var asideDirectory: String { Self.asideDirectory(Path.parent(of: stagingDirectory)) }

    static func asideDirectory(_ stateFolder: String) -> String { Path.join(stateFolder, "set-aside") }

    /// Creates one of the store's folders, and moves away any other file in its place.
    /// - Returns: the new path of that file, or nil.
    static func makeFolder(_ path: String, aside: String) throws(Errno) -> String? {
        do throws(Errno) {
            try FileSystem.makeDirectory(path, mode: 0o700)
            return nil
        } catch .EEXIST {
            guard try !FileSystem.status(path).isDirectory else { return nil }
        }
        let target = try placeAside("stray-\(Path.name(of: path))", in: aside)
        try FileSystem.rename(path, to: target, .noReplace)
        try FileSystem.syncDirectory(aside)
        try FileSystem.makeDirectory(path, mode: 0o700)
        return target
    }

    /// Moves a content's file away.
    /// - Returns: its new path.
    @discardableResult
    package func setAside(_ id: ContentID) throws(UbiquityError) -> String {
        let target = try placeAside("content-\(id)")
        try describing("set a content aside", at: path(of: id)) { () throws(Errno) in
            try FileSystem.rename(path(of: id), to: target, .noReplace)
            try FileSystem.syncDirectory(asideDirectory)
        }
        return target
    }

    /// Moves a foreign file away.
    /// - Parameter name: the path as `strayFiles` returns it.
    /// - Returns: its new path.
    package func setAside(stray name: String) throws(UbiquityError) -> String {
        let path = Path.join(directory, name)
        let target = try placeAside("stray-\(name.replacing("/", with: "-"))")
        try describing("set a file aside", at: path) { () throws(Errno) in
            try FileSystem.rename(path, to: target, .noReplace)
            try FileSystem.syncDirectory(asideDirectory)
            if folders.names.contains(name) { try FileSystem.makeDirectory(path, mode: 0o700) }
        }
        return target
    }

    /// Truncates a content, or extends it by a hole.
    package func resize(_ id: ContentID, to size: Int64) throws(UbiquityError) {
        let file = try open(id, writable: true)
        try describing("resize the content", at: path(of: id)) { () throws(Errno) in try file.truncate(to: size) }
    }

    /// Copies a content in its current state to the set-aside folder.
    @discardableResult
    package func copyAside(_ id: ContentID) throws(UbiquityError) -> String {
        let target = try placeAside("content-\(id)")
        let original = try open(id, writable: false)
        try describing("copy a content aside", at: target) { () throws(Errno) in
            let copy = try FileDescriptor.open(target, [.readWrite, .create, .exclusive])
            do throws(Errno) { try copy.clone(original) } catch {
                var position: Int64 = 0
                let size = try original.status().size
                while position < size {
                    let count = try copy.copy(from: original, at: position, to: position, count: size - position)
                    guard count > 0 else { break }
                    position += count
                }
            }
            try copy.sync()
            try FileSystem.syncDirectory(asideDirectory)
        }
        return target
    }

    /// A free path in the folder: the name, with a number if necessary.
    private func placeAside(_ name: String) throws(UbiquityError) -> String {
        try describing("create the folder for set-aside files", at: asideDirectory) { () throws(Errno) in
            try Self.placeAside(name, in: asideDirectory)
        }
    }

    private static func placeAside(_ name: String, in folder: String) throws(Errno) -> String {
        try FileSystem.makeDirectories(folder)
        var path = Path.join(folder, name), number = 2
        while try FileSystem.exists(path) {
            path = Path.join(folder, "\(name)-\(number)")
            number += 1
        }
        return path
    }

    /// Whether the content's file waits for its removal.
    package func isRetired(_ id: ContentID) -> Bool { retired.withLock { $0.contains(id) } }
}
