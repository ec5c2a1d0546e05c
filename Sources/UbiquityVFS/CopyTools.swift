internal import UbiquityCore
internal import UbiquitySystem

/// Programs that copy extended attributes from file to file.
///
/// The status attributes are computed: copied to a file elsewhere they would be false, and copied into the mount they
/// cannot be set. Observed behaviour of the tools:
/// - `cp -a`, `mv` across file systems and `install` list, read and set all (libattr), and report a set that fails.
/// - `rsync -X` lists, reads, sets, and removes attributes that the source does not have; it reports each failure.
/// - GNU and BSD tar list and store them, and set what the archive contains. Backup programs do as tar.
///
/// So these programs do not see the status attributes in a listing. When they set or remove one (from an archive made
/// of copies), that is accepted and ignored. All other programs see them, and get EPERM when they set one.
enum CopyTools {
    private static let names: Set<String> = [
        "cp", "mv", "install", "rsync", "tar", "bsdtar", "star", "dar", "busybox", "rclone", "restic", "borg", "kopia",
        "duplicity", "unison", "xcp", "gio", "gvfsd", "nautilus", "nemo", "caja", "thunar", "pcmanfm", "dolphin",
        "kioworker", "kioslave5", "krusader", "mc", "mcp", "cpio", "pax", "zip", "ditto", "rdiff-backup", "unsquashfs",
        "mksquashfs", "squashfs", "casync", "bup", "systemd-nspawn", "dpkg", "ostree", "buildah", "podman",
    ]

    /// Whether the process (or thread) is one of them.
    static func isCopying(_ process: Int32) -> Bool { ProgramName.isOne(of: names, process) }
}
