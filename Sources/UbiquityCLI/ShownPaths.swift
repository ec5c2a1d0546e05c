import Ubiquity
import UbiquityCore
import UbiquitySystem

/// Prints paths of a mount so that the next command accepts them: relative to the working directory.
struct ShownPaths {
    private let mountPoint: String
    /// The working directory; empty if it was removed.
    private let folder: String

    /// - Parameter mountPoint: absolute and without symlinks.
    init(mountPoint: [UInt8]) {
        self.mountPoint = String(decoding: mountPoint, as: UTF8.self)
        folder = String(decoding: (try? ProcessHost.workingDirectory()) ?? [], as: UTF8.self)
    }

    init(mountPoint: String) { self.init(mountPoint: Array(mountPoint.utf8)) }

    /// - Parameter path: from the mount's root, without a slash in front; the root itself is empty.
    /// - Returns: the path from the working directory if that is in the mount or above it, else the absolute path.
    func text(_ path: String) -> String {
        let absolute = path.isEmpty ? mountPoint : Path.join(mountPoint, path)
        if absolute == folder { return "." }
        if !folder.isEmpty, absolute.hasPrefix(folder + "/") { return String(absolute.dropFirst(folder.count + 1)) }
        guard folder.hasPrefix(mountPoint + "/") else { return absolute }
        let target = absolute.split(separator: "/"), here = folder.split(separator: "/")
        let common = zip(target, here).prefix { $0.utf8.elementsEqual($1.utf8) }.count
        let steps = here.dropFirst(common).map { _ in ".." } + target.dropFirst(common).map(String.init)
        return steps.joined(separator: "/")
    }
}

extension PathResolver.Location {
    /// The absolute path of an item of the same mount.
    func place(of path: String) -> String {
        let root = String(decoding: mountPoint, as: UTF8.self)
        return path.isEmpty ? root : Path.join(root, path)
    }
}
