internal import UbiquitySystem

/// What program a caller is.
enum ProgramName {
    /// Whether the process (or thread) with that number has one of these names, or runs a program of one of them: it
    /// may have named its threads.
    static func isOne(of names: Set<String>, _ process: Int32) -> Bool {
        guard process > 0 else { return false }
        // A process that has ended meanwhile, or is another user's, is none that has to be treated apart.
        if let name = try? SmallFile.read("/proc/\(process)/comm", limit: 64),
            names.contains(String(decoding: name.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
        {
            return true
        }
        guard let program = try? FileSystem.readLink("/proc/\(process)/exe") else { return false }
        return names.contains(Path.name(of: String(decoding: program, as: UTF8.self)))
    }
}

/// Programs that open whatever they come across with O_NONBLOCK, lest a FIFO or a terminal hold them up, and take
/// EAGAIN from a file for a failure: GNU grep -r and tar do so (in their sources), and file(1), tail -f and BSD tar. xz
/// asks again and again, which takes a core.
/// For them a placeholder is a file like any other, and a read waits.
enum DeviceGuards {
    private static let names: Set<String> = [
        "grep", "egrep", "fgrep", "zgrep", "tar", "bsdtar", "star", "file", "tail", "xz",
    ]

    static func isOne(_ process: Int32) -> Bool { ProgramName.isOne(of: names, process) }
}
