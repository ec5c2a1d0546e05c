/// Conflicts that were not announced on a terminal yet.
///
/// The daemon keeps them in a file of the container's state folder. The next interactive command prints one line and
/// removes the file.
package struct ConflictNotices: Codable, Hashable, Sendable {
    package struct Conflict: Codable, Hashable, Sendable {
        /// From the mount's root, without a slash in front.
        package var path: String
        /// The device of the current version; nil if it is not known.
        package var device: String?
        /// The name under which the other version was saved, and its device.
        package var otherName: String
        package var otherDevice: String
        /// The other version's id.
        package var version: String

        package init(path: String, device: String?, otherName: String, otherDevice: String, version: String) {
            self.path = path
            self.device = device
            self.otherName = otherName
            self.otherDevice = otherDevice
            self.version = version
        }
    }

    package private(set) var conflicts: [Conflict] = []
    /// Number of conflicts beyond `maximumCount`.
    package private(set) var omitted = 0

    package static let fileName = "new-conflicts.json"
    /// Largest file in bytes.
    package static let maximumLength = 1 << 20
    /// Number of conflicts kept in the list.
    package static let maximumCount = 20
    /// Number of conflicts named in the line.
    private static let namedCount = 3

    package init() {}

    package var isEmpty: Bool { conflicts.isEmpty && omitted == 0 }

    package mutating func add(_ conflict: Conflict) {
        guard !conflicts.contains(where: { $0.version == conflict.version }) else { return }
        if conflicts.count < Self.maximumCount { conflicts.append(conflict) } else { omitted += 1 }
    }

    /// Removes a conflict after its decision.
    package mutating func remove(version: String) { conflicts.removeAll { $0.version == version } }

    /// One line for the user.
    /// - Parameter shown: converts a path of the container into one relative to the working directory.
    package func line(shown: (String) -> String) -> String {
        let count = conflicts.count + omitted
        let named = conflicts.prefix(Self.namedCount).map { conflict in
            let devices = conflict.device.map { "\($0) and \(conflict.otherDevice)" } ?? conflict.otherDevice
            return "\(shown(conflict.path)) (changed on \(devices))"
        }
        let more = count > named.count ? " and \(count - named.count) more" : ""
        return "\(count == 1 ? "1 new conflict" : "\(count) new conflicts"): \(named.joined(separator: ", "))\(more); "
            + "'ubiquity versions PATH' lists both versions, 'ubiquity resolve PATH' decides"
    }
}
