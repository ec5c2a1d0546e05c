internal import UbiquityCore
internal import UbiquitySystem

/// Programs that carry extended attributes from file to file.
///
/// The status attributes are computed: carried to a file elsewhere they would be lies there, and carried into the
/// mount they cannot be set. What was seen of these tools (cp, mv, rsync, tar): `cp -a`, `mv` across file systems and
/// `install` list, read and set all (libattr), and report a set that fails; `rsync -X` lists, reads, sets, and removes
/// at the target what the source does not have, an error for each failure; GNU and BSD tar list and store, and set what
/// is in the archive; backup programs do as tar. So these programs do not see the status attributes in a listing, and
/// setting or removing one (from an archive that was made of copies) is taken and ignored. All other programs see
/// them, and are refused with EPERM when they set one.
enum CopyTools {
    private static let names: Set<String> = [
        "cp", "mv", "install", "rsync", "tar", "bsdtar", "star", "dar", "busybox", "rclone", "restic", "borg", "kopia",
        "duplicity", "unison", "xcp", "gio", "gvfsd", "nautilus", "nemo", "caja", "thunar", "pcmanfm", "dolphin",
        "kioworker", "kioslave5", "krusader", "mc", "mcp", "cpio", "pax", "zip", "ditto", "rdiff-backup", "unsquashfs",
        "mksquashfs", "squashfs", "casync", "bup", "systemd-nspawn", "dpkg", "ostree", "buildah", "podman",
    ]

    /// Whether the process (or thread) with that number is one of them.
    static func isCopying(_ process: Int32) -> Bool { ProgramName.isOne(of: names, process) }
}
