internal import UbiquitySystem

/// Programs that read whatever they come across, without a person who waits for it: thumbnailers, indexers, virus
/// scanners, backups. For them nothing is downloaded: a read of what is not here fails at once (EDEADLK, as on a Mac).
/// What they start is treated as they are.
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
    /// The kernel keeps so many bytes of a thread's name.
    private static let nameLength = 15

    private let names: Set<String>
    private let isEmpty: Bool

    /// - Parameter names: of executable files, or of scripts as the kernel names their processes.
    package init(names: [String]) {
        self.names = Set(names + names.map { String(decoding: Array($0.utf8.prefix(Self.nameLength)), as: UTF8.self) })
        isEmpty = false
    }

    private init() {
        names = []
        isEmpty = true
    }

    /// Nobody is one.
    package static let none = BackgroundReaders()

    /// Whether the process (or thread) with that number, or one that it was started by, is one of them. What cannot be
    /// asked, since it has ended or is another user's, is none.
    func isOne(_ process: Int32) -> Bool {
        guard !isEmpty else { return false }
        return ProcessTree.lineage(of: process) {
            ProgramName.isOne(of: names, $0, scripts: true) || ProcessMark.downloadsNothing.isOn($0)
        }
    }
}
