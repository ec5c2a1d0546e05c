import Ubiquity
import UbiquityControl
import UbiquitySystem

/// Announces conflicts that appeared since the last interactive command, one line for each mount.
enum NewConflicts {
    /// Name of the file while it is being printed.
    private static let shownName = ConflictNotices.fileName + ".shown"

    /// Does nothing unless a user reads the output. An unreadable notice must not fail the command.
    static func show() {
        guard isInteractive, let mounts = try? MountFinder.table().containers else { return }
        for mount in mounts where !MountFinder.isForbidden(stateFolder: mount.source) {
            guard let notices = take(String(decoding: mount.source, as: UTF8.self)), !notices.isEmpty else { continue }
            let paths = ShownPaths(mountPoint: mount.mountPoint)
            Output.message(notices.line { paths.text($0) })
        }
    }

    private static var isInteractive: Bool {
        guard ProcessHost.isTerminal(1), ProcessHost.isTerminal(2), !Output.isJSON else { return false }
        return !ProcessHost.arguments.prefix { $0 != "--" }.contains { $0 == "-q" || $0 == "--quiet" }
    }

    /// Renames the file first: the daemon writes later conflicts to a new one.
    private static func take(_ stateFolder: String) -> ConflictNotices? {
        let shown = Path.join(stateFolder, shownName)
        do throws(Errno) {
            try FileSystem.rename(Path.join(stateFolder, ConflictNotices.fileName), to: shown)
        } catch { return nil }
        defer { try? FileSystem.unlink(shown) }
        guard let bytes = (try? SmallFile.read(shown, limit: ConflictNotices.maximumLength)) ?? nil else { return nil }
        return try? ControlCodec.decode(ConflictNotices.self, from: bytes)
    }
}
