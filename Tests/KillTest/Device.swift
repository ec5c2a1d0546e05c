import Foundation
import Glibc
import UbiquitySystem

/// The process that holds a lock file.
func holder(of lock: String) -> pid_t? { (try? ProcessLock.holder(of: lock)).flatMap { $0 } }

/// A device: a state folder, a mount point, and a worker in it.
final class Device {
    let world: World
    let name: String
    let state: String
    let mountPoint: String
    private var worker: Program?

    init(_ world: World, name: String, state: String) {
        self.world = world
        self.name = name
        self.state = state
        mountPoint = "\(world.folder)/\(name)"
    }

    var containerState: String { state + "/local/default" }
    var process: pid_t? { holder(of: containerState + "/lock") }
    /// The journal of this device's worker. The worker's folder in the mount has the device's name.
    var journal: String { "\(world.folder)/\(name).journal" }

    func startMounting(_ options: String...) throws -> Program {
        try world.start(
            [world.program, "mount", "--state", state, "--device", name, "--disk-floor", "0"] + options + [mountPoint])
    }

    func mount() throws { try startMounting().succeed() }

    func kill() throws {
        guard let process else { return }
        Glibc.kill(process, SIGKILL)
        try world.wait("\(name)'s daemon is dead") { self.process == nil }
    }

    func unmount() throws { try world.run(world.program, "unmount", mountPoint) }

    func waitUntilIdle(within limit: Double = 120) throws {
        try world.run(world.program, "wait", "--idle", "--timeout", "\(limit)", mountPoint, limit: limit + 30)
    }

    func end() {
        worker?.process.terminate()
        if let process { Glibc.kill(process, SIGKILL) }
        clearMount()
    }

    /// Removes the mount of a killed daemon. Until then the kernel keeps the backing files of open files in use.
    func clearMount() {
        while umount2(mountPoint, CInt(MNT_DETACH)) == 0 {}
    }

    // MARK: The worker

    private static let thisProgram = "/proc/self/exe"

    private func workerWords(journal: String, folder: String, _ more: [String]) -> [String] {
        let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: Self.thisProgram)) ?? ""
        return [program, "worker", "--mount", mountPoint, "--journal", journal, "--folder", folder] + more
    }

    /// Starts the worker, which first checks the files of its folder.
    func startWorker(seed: UInt64, position: String? = nil) throws {
        let more = ["--seed", "\(seed)"] + (position.map { ["--position", $0] } ?? [])
        worker = try world.start(workerWords(journal: journal, folder: name, more))
    }

    /// Waits until the worker has checked its files and begins to work.
    func awaitLook() throws {
        guard let worker else { return }
        try world.wait("the worker has checked its files", within: 60) {
            worker.text.contains("looked\n") || !worker.process.isRunning
        }
        if !worker.process.isRunning { try finishWorker() }
    }

    func stopWorker() throws {
        worker?.process.terminate()
        try finishWorker()
    }

    /// Call this after the mount has died, or after the worker was asked to stop.
    func finishWorker() throws {
        guard let worker else { return }
        self.worker = nil
        let status = try worker.end()
        guard status == 0 else { throw Trouble("on \(name): \(worker.text)") }
    }

    /// Compares a worker's folder, as this device shows it, with the worker's journal. Returns the files.
    @discardableResult
    func look(at other: Device, _ more: String...) throws -> String {
        let program = try world.start(
            workerWords(journal: other.journal, folder: other.name, ["--look", "--picture"] + more))
        let status = try program.end(within: 120)
        guard status == 0 else { throw Trouble("\(name) checking the files of \(other.name): \(program.text)") }
        return program.text
    }
}
