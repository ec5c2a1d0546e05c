internal import UbiquitySystem

/// Programs that read every file they find without a waiting user: thumbnailers, indexers, virus scanners, backups.
/// Nothing is downloaded for them or for the programs they start. A read of missing bytes fails at once (EDEADLK, as on
/// a Mac).
package struct BackgroundReaders: Sendable {
    package static let standardNames = [
        // Thumbnailers.
        "tumblerd", "ffmpegthumbnailer", "totem-video-thumbnailer", "evince-thumbnailer", "atril-thumbnailer",
        "xreader-thumbnailer", "gdk-pixbuf-thumbnailer", "glycin-thumbnailer", "gnome-thumbnail-font",
        "mate-thumbnail-font",
        "gsf-office-thumbnailer", "gnome-epub-thumbnailer", "raw-thumbnailer", "papers-thumbnailer",
        // Indexers.
        "tracker-miner-fs", "tracker-miner-fs-3", "tracker-extract", "tracker-extract-3", "localsearch",
        "localsearch-3", "localsearch-extractor-3", "baloo_file", "baloo_file_extractor", "recollindex",
        "updatedb", "updatedb.plocate", "updatedb.mlocate", "zeitgeist-fts",
        // Scanners.
        "clamscan", "clamdscan", "clamd", "clamonacc", "maldet", "rkhunter", "aide", "tripwire",
        // Backups.
        "borg", "borgmatic", "restic", "duplicity", "deja-dup", "deja-dup-monitor", "kopia", "bup", "rdiff-backup",
        "rsnapshot", "timeshift", "backintime", "kup-daemon", "duplicati", "burp", "bacula-fd", "bareos-fd",
    ]
    /// Longest thread name in bytes that the kernel keeps.
    private static let nameLength = 15

    private let names: Set<String>
    private let isEmpty: Bool

    /// - Parameter names: names of executable files, or of scripts as the kernel names their processes.
    package init(names: [String]) {
        self.names = Set(names + names.map { String(decoding: Array($0.utf8.prefix(Self.nameLength)), as: UTF8.self) })
        isEmpty = false
    }

    private init() {
        names = []
        isEmpty = true
    }

    /// No program is a background reader.
    package static let none = BackgroundReaders()

    /// Whether the process (or thread), or one of its ancestors, is a background reader. A process that has ended or
    /// belongs to another user cannot be examined and counts as none.
    func isOne(_ process: Int32) -> Bool {
        guard !isEmpty else { return false }
        return ProcessTree.lineage(of: process) {
            ProgramName.isOne(of: names, $0, scripts: true) || ProcessMark.downloadsNothing.isOn($0)
        }
    }
}
