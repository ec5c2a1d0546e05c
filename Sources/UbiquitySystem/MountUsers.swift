/// Programs that keep a mount from being taken away.
package enum MountUsers {
    package struct User: Sendable, Hashable {
        package var process: Int32
        /// The program's name, as the kernel has it.
        package var name: String
        package var use: Use
    }

    package enum Use: Sendable, Hashable {
        /// What it has open in the mount, from the mount point.
        case open(String)
        /// It stands in the mount.
        case within
        /// A call of it is not answered yet.
        case waiting
    }

    /// Bytes of `/proc/N/maps` that are looked at: some thousand mappings.
    private static let maximumMaps = 1 << 20

    /// Those that have something open or mapped in the mount, or stand in it, by their numbers. Nothing of those about
    /// which this process may know nothing; asks the mount nothing.
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

    /// Those that wait for an answer.
    /// - Parameter threads: of theirs, which the mount knows to wait.
    package static func waiting(_ threads: [Int32], limit: Int) -> [User] {
        // Of one that was killed the call may not be over yet.
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

    /// Where a link leads in the mount; nil if it leads elsewhere.
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
