internal import UbiquitySystem

/// Programs that need the content of a file they open with O_NOATIME.
///
/// File managers determine a file's type by its first bytes when its name does not tell (GLib opens it with O_RDONLY
/// and O_NOATIME). Listing a folder would download it. Such an open of a placeholder therefore fails with EDEADLK, and
/// GLib falls back to the name. A program in this list downloads as with any other open.
package struct NoAccessTimeReaders: Sendable {
    package static let standardNames = ["tar", "bsdtar", "star", "rsync", "dd", "cpio", "git"]
    /// In a list of names: every program.
    package static let everyone = "*"

    private let names: Set<String>

    package init(names: [String] = Self.standardNames) { self.names = Set(names) }

    func isOne(_ process: Int32) -> Bool {
        names.contains(Self.everyone) || ProgramName.isOne(of: names, process, scripts: true)
    }
}
