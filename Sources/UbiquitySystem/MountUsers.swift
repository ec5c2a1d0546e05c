/// Programs that keep a mount busy.
package enum MountUsers {
    package struct User: Sendable, Hashable {
        package var process: Int32
        /// The program's name, as the kernel has it.
        package var name: String
        package var use: Use
    }

    package enum Use: Sendable, Hashable {
        /// A file it has open in the mount, as a path from the mount point.
        case open(String)
        /// Its working directory or root is in the mount.
        case within
        /// One of its calls is not answered yet.
        case waiting
    }

    /// Maximum bytes read of `/proc/N/maps`: some thousand mappings.
    private static let maximumMaps = 1 << 20

    /// Returns processes that have something open or mapped in the mount, or their working directory there, ordered by
    /// id. Processes this one may not examine are left out. It never accesses the mount.
    package static func users(of mountPoint: String, limit: Int) -> [User] {
        let own = ProcessHost.id
        var found = [User]()
        for process in ((try? FileSystem.entries(of: "/proc")) ?? []).compactMap({ Int32($0.text) }).sorted() {
            guard found.count < limit else { break }
            guard process != own, let use = use(by: process, mountPoint) else { continue }
            found.append(User(process: process, name: name(of: process), use: use))
        }
        return found
    }

    /// Returns processes that wait for an answer of the mount.
    ///
    /// - Parameter threads: Their waiting threads, known to the mount.
    package static func waiting(_ threads: [Int32], limit: Int) -> [User] {
        // A killed process's call may still be unfinished.
        Set(threads.map(ProcessTree.leader)).filter(ProcessTree.isAlive).sorted().prefix(limit).map { process in
            User(process: process, name: name(of: process), use: .waiting)
        }
    }

    private static func name(of process: Int32) -> String {
        let name = (try? SmallFile.read("/proc/\(process)/comm", limit: 64)).flatMap { $0 } ?? []
        return String(decoding: name, as: UTF8.self).filter { !$0.isNewline }
    }

    private static func use(by process: Int32, _ mountPoint: String) -> Use? {
        let folder = "/proc/\(process)"
        let descriptors = ((try? FileSystem.entries(of: folder + "/fd")) ?? []).map { "\(folder)/fd/\($0.text)" }
        let open = descriptors.compactMap { place($0, mountPoint) }
        if let file = open.first(where: { !$0.isEmpty }) ?? mapped(by: process, mountPoint) {
            return .open(file)
        }
        let standsInIt = [folder + "/cwd", folder + "/root"].contains { place($0, mountPoint) != nil }
        return standsInIt || !open.isEmpty ? .within : nil
    }

    /// Returns where a link leads in the mount; nil if it leads elsewhere.
    private static func place(_ link: String, _ mountPoint: String) -> String? {
        guard let target = try? FileSystem.readLink(link) else { return nil }
        return relative(String(decoding: target, as: UTF8.self), mountPoint)
    }

    private static func mapped(by process: Int32, _ mountPoint: String) -> String? {
        guard let maps = (try? SmallFile.read("/proc/\(process)/maps", limit: maximumMaps)).flatMap({ $0 }) else {
            return nil
        }
        for line in String(decoding: maps, as: UTF8.self).split(separator: "\n") {
            guard let slash = line.firstIndex(of: "/") else { continue }
            if let path = relative(String(line[slash...]), mountPoint), !path.isEmpty { return path }
        }
        return nil
    }

    private static func relative(_ path: String, _ mountPoint: String) -> String? {
        if path == mountPoint { return "" }
        return path.hasPrefix(mountPoint + "/") ? String(path.dropFirst(mountPoint.count + 1)) : nil
    }
}
