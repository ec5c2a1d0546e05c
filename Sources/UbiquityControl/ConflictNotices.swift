/// Conflicts that no person has seen on a terminal yet.
///
/// The daemon keeps them in a file of the container's state folder. The next interactive command prints one line and
/// removes the file.
package struct ConflictNotices: Codable, Hashable, Sendable {
    package struct Conflict: Codable, Hashable, Sendable {
        /// From the mount's root, without a slash in front.
        package var path: String
        /// The device of the version that programs see; nil if it is not known.
        package var device: String?
        /// The name that the other version was saved under, and its device.
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
    /// Conflicts beyond `maximumCount`.
    package private(set) var omitted = 0

    package static let fileName = "new-conflicts.json"
    /// Bytes of the file.
    package static let maximumLength = 1 << 20
    /// Conflicts that are kept one by one.
    package static let maximumCount = 20
    /// Conflicts that are named in the line.
    private static let namedCount = 3

    package init() {}

    package var isEmpty: Bool { conflicts.isEmpty && omitted == 0 }

    package mutating func add(_ conflict: Conflict) {
        guard !conflicts.contains(where: { $0.version == conflict.version }) else { return }
        if conflicts.count < Self.maximumCount { conflicts.append(conflict) } else { omitted += 1 }
    }

    /// Removes a conflict that was decided.
    package mutating func remove(version: String) { conflicts.removeAll { $0.version == version } }

    /// One line for a person.
    /// - Parameter shown: Turns a path of the container into one for the working directory.
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
