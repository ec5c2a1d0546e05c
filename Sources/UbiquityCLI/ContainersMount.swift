import ArgumentParser
import Ubiquity
import UbiquityCloudClient
import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquitySystem
import UbiquityWire

/// Which containers a mount shows.
enum ContainerChoice: String, CaseIterable, ExpressibleByArgument {
    case all
}

/// `ubiquity mount --containers all`: mounts each container of the account on a folder in the mount point, named by its
/// display name. So a move from one container to another gives EXDEV, and `mv` copies.
///
/// A container that another device creates later appears at the next mount.
struct ContainersMount {
    /// For one container, whose name and mount point are replaced.
    let settings: MountSettings

    /// Mounts all containers. Blocks.
    /// - Returns: notices for the user, and the number of containers.
    func run(_ containers: [ContainerEntry], progress: (String) -> Void) throws -> (notices: [String], count: Int) {
        let place = try checkedPlace()
        var notices = [String](), count = 0
        for (container, name) in Self.folders(of: containers) {
            progress("mounting \(name) …")
            var one = settings
            one.container = container
            one.mountPoint = Path.join(place, name)
            try describing("create the container's folder", at: one.mountPoint) { () throws(Errno) in
                do throws(Errno) { try FileSystem.makeDirectory(one.mountPoint) } catch .EEXIST {}
            }
            notices += try MountLauncher.launch(one)
            count += 1
        }
        // A file beside the containers would belong to none of them, and stay on this device.
        try describing("protect the folder of the containers", at: place) { () throws(Errno) in
            try FileSystem.setPermissions(place, 0o555)
        }
        return (notices, count)
    }

    /// The mount point, which must be a folder without files.
    private func checkedPlace() throws -> String {
        let path = settings.mountPoint
        let (place, entries) = try describing("mount", at: path) { () throws(Errno) in
            let real = try FileSystem.realPath(path)
            return (real, try FileSystem.entries(of: real))
        }
        guard try MountFinder.find(place) == nil else {
            throw UbiquityError(
                .inUse, "cannot mount: a container is mounted there", at: path, remedy: "unmount it first")
        }
        // Empty folders may be left of an earlier mount.
        for entry in entries {
            let inside = Path.join(place, entry.text)
            let isEmpty = (try? FileSystem.entries(of: inside).isEmpty) ?? false
            guard isEmpty, try !Self.isMountPoint(inside) else {
                throw UbiquityError(
                    .directoryNotEmpty, "cannot mount: the folder is not empty", at: inside,
                    remedy: "name an empty folder")
            }
        }
        try describing("prepare the mount point", at: path) { () throws(Errno) in
            try FileSystem.setPermissions(place, 0o755)
        }
        return place
    }

    private static func isMountPoint(_ path: String) throws -> Bool {
        try MountFinder.table().containers.contains { $0.mountPoint == Array(path.utf8) }
    }

    /// The folder of each container: its display name, or its name. Equal ones get a number.
    static func folders(of containers: [ContainerEntry]) -> [(container: ContainerID, name: String)] {
        var taken = Set<String>()
        return containers.sorted { $0.name < $1.name }.compactMap { entry in
            guard let container = ContainerID(entry.name) else { return nil }
            let shown = entry.displayName.flatMap { try? ItemName($0) } ?? ItemName(stored: Array(entry.name.utf8))
            var name = shown, number = 2
            while !taken.insert(name.description).inserted {
                name = shown.numbered(number)
                number += 1
            }
            return (container, name.description)
        }
    }

    /// The mount points of containers directly below a folder that is no container itself.
    static func mountPoints(in folder: String) throws -> [String] {
        guard let real = try? FileSystem.realPath(folder) else { return [] }
        return try MountFinder.table().containers.map { String(decoding: $0.mountPoint, as: UTF8.self) }
            .filter { Path.parent(of: $0) == real }
    }

    /// Removes the empty folders after the containers are unmounted.
    static func clean(_ folder: String, _ mountPoints: [String]) {
        // The folder is usable again also if one of these fails.
        try? FileSystem.setPermissions(folder, 0o755)
        for path in mountPoints { try? FileSystem.removeDirectory(path) }
    }
}
