import ArgumentParser
import Glibc
import Synchronization
import UbiquityCore
import UbiquitySystem

/// Whether the worker was asked to stop. It finishes its current operation first.
private let isAskedToStop = Atomic<Bool>(false)

/// Works in a folder of a mount until it is asked to stop or the mount dies. Exit code 0: the files it found were
/// right.
struct WorkerCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "worker", abstract: "Work in a mount, or check one (the other commands start it).")

    @Option(help: "The mount point.") var mount: String
    @Option(help: "The journal's path.") var journal: String
    @Option(help: "The folder in the mount.") var folder: String
    @Option(help: "The seed.") var seed: UInt64 = 1
    @Option(help: "A file with the position in the disk's records.") var position: String?
    @Option(help: "The position of the power loss.") var cut: Int?
    @Flag(help: "Only check the files.") var look = false
    @Flag(help: "Accept any state that a file ever had.") var loosely = false
    @Flag(help: "Print the files.") var picture = false

    func run() throws {
        // The mount that exists now: if it dies, no call reaches the folder beneath it.
        let folderOfMount = try FileDescriptor.open(mount, [.readOnly, .directory])
        let root = "/proc/self/fd/\(folderOfMount.rawValue)"
        signal(SIGTERM) { _ in isAskedToStop.store(true, ordering: .relaxed) }
        try withExtendedLifetime(folderOfMount) {
            do {
                try work(root)
            } catch let error as Errno where error.meansDeath || error == .EINTR && dies(root) {
                return
            } catch let error as Errno where error == .EINTR {
                throw Trouble("a call was interrupted in a living mount")
            }
        }
    }

    private func work(_ root: String) throws {
        let known = try Journal(path: journal)
        var audit = Audit(journal: known, root: root, folder: folder, cut: cut)
        try audit.run(exactly: !loosely)
        if picture { ProcessHost.write(audit.picture.map { $0 + "\n" }.joined(), to: 1) }
        guard audit.complaints.isEmpty else {
            ProcessHost.write(audit.complaints.joined(separator: "\n") + "\n", to: 1)
            throw ExitCode(1)
        }
        guard !look else { return }
        let load = try Load(
            root: root, folder: folder, journal: journal, known: known, found: audit.found, seed: seed,
            position: position)
        ProcessHost.write("looked\n", to: 1)
        while !isAskedToStop.load(ordering: .relaxed) { try load.step() }
    }
}

/// Whether the mount is dying. A call ends with EINTR if the kernel was copying its request to a process that is being
/// killed (`fatal_signal_pending` in mm/gup.c). No call of a living mount may end like that.
private func dies(_ root: String) -> Bool {
    for attempt in 0..<100 {
        // Each attempt uses a new name: the kernel does not know it and must ask the daemon.
        if access("\(root)/.asked-\(attempt)", F_OK) != 0, errno != ENOENT { return true }
        usleep(10_000)
    }
    return false
}

extension Errno {
    /// Whether the error means that the mount has died.
    var meansDeath: Bool {
        // ECANCELED: the call came while the threads that serve it were ending.
        let deaths: [Errno] = [.ENOTCONN, Errno(rawValue: ECONNABORTED), .ECANCELED, .ENODEV, .EIO]
        return deaths.contains(self)
    }
}
