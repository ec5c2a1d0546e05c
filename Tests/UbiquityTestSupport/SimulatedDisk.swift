internal import CSimulatedDisk
internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem

/// The disk of one machine of a simulated world: a folder whose writes are watched. So the machine can be killed at any
/// write, lose unsynced data, or run out of space.
///
/// A crash makes an image of the folder as a restart would find it. The next start uses the image; later writes of the
/// dead process go to the old folder, which nobody reads any more.
package final class SimulatedDisk: Sendable {
    /// The effect of a crash on written data.
    package enum Crash: Sendable, Hashable {
        /// `kill -9`: no written data is lost.
        case kill
        /// Power loss: unsynced changes may be lost, file by file and name by name.
        case powerLoss
    }

    struct File {
        /// The content at the last sync.
        var durable: [UInt8]
        /// The ranges written since.
        var changed: [Range<Int>] = []
        var isChanged = false
    }

    struct Plan {
        var writes: Int
        var crash: Crash
        var action: @Sendable () -> Void
    }

    struct State {
        var generation = 1
        var files: [UInt64: File] = [:]
        /// The names in a folder at the last sync, if they have changed in this generation.
        var folders: [UInt64: [String: UInt64]] = [:]
        var plan: Plan?
        var isFull = false
        var skipsContentSyncs = false
        var writes = 0
    }

    let base: String
    let random: SeededRandom
    private let timekeeper: VirtualTimekeeper
    /// Whether power may be lost. If not, syncs are not recorded, which saves time.
    let losesPower: Bool
    let state = Lock(State())

    init(base: String, random: SeededRandom, timekeeper: VirtualTimekeeper, losesPower: Bool) throws {
        self.timekeeper = timekeeper
        self.base = base
        self.random = random
        self.losesPower = losesPower
        try FileSystem.makeDirectories("\(base).1")
    }

    /// The current folder of the machine's files.
    package var folder: String { state.withLock { "\(base).\($0.generation)" } }

    var generation: Int { state.withLock { $0.generation } }

    /// The number of writes so far.
    package var writes: Int { state.withLock { $0.writes } }

    // MARK: Faults

    /// Whether every new allocation fails for lack of space.
    package func setFull(_ isFull: Bool) { state.withLock { $0.isFull = isFull } }

    /// Makes syncs of contents report success and do nothing: a fault that must be found.
    package func skipContentSyncs() { state.withLock { $0.skipsContentSyncs = true } }

    /// At the n-th write from now, makes the image of a crash and runs `action`, before the write.
    func crash(_ crash: Crash, afterWrites writes: Int, _ action: @escaping @Sendable () -> Void) {
        state.withLock { $0.plan = Plan(writes: max(1, writes), crash: crash, action: action) }
    }

    /// Cancels all planned faults.
    package func heal() {
        state.withLock { state in
            state.isFull = false
            state.plan = nil
        }
    }

    /// Stops the machine now.
    func stop(_ crash: Crash) throws {
        let looked = simulated_disk_look_away(1)
        defer { _ = simulated_disk_look_away(looked) }
        let old = folder
        let new = state.withLock { state in
            state.plan = nil
            return "\(base).\(state.generation + 1)"
        }
        switch crash {
        case .kill: try DiskImage.copy(old, to: new)
        case .powerLoss: try DiskImage(self).write(to: new)
        }
        state.withLock { state in
            state.generation += 1
            state.files = [:]
            state.folders = [:]
        }
    }

    // MARK: Watching

    /// - Returns: an errno to fail with, 0 to continue, -1 to do nothing and succeed.
    func before(_ event: disk_event, _ target: DiskWatch.Target) -> Int32 {
        let plan = state.withLock { state -> Plan? in
            state.writes += 1
            state.plan?.writes -= 1
            guard let plan = state.plan, plan.writes <= 0 else { return nil }
            state.plan = nil
            return plan
        }
        if let plan {
            // The image is made before the action runs. If it cannot be made, the next start finds an empty device.
            try? stop(plan.crash)
            plan.action()
            return 0
        }
        if takesRoom(event), state.withLock({ $0.isFull }) { return ENOSPC }
        if event.operation == Int32(DISK_SYNC), target.isContent,
            state.withLock({ $0.skipsContentSyncs })
        {
            return -1
        }
        if losesPower { preserve(event, target) }
        return 0
    }

    private func takesRoom(_ event: disk_event) -> Bool {
        switch event.operation {
        case Int32(DISK_WRITE), Int32(DISK_COPY), Int32(DISK_CREATE): true
        default: false
        }
    }

    /// Whether no part of a file has ever reached the disk. A fault of the syncs of contents must be found, and not
    /// bypassed.
    func isUnplaced(_ file: FileDescriptor) -> Bool {
        guard !state.withLock({ $0.skipsContentSyncs }) else { return false }
        guard losesPower else { return true }
        guard let inode = try? file.status().inode else { return false }
        return state.withLock { $0.files[inode]?.durable.isEmpty == true }
    }

    /// Keeps the durable state of a file before its first change.
    private func preserve(_ event: disk_event, _ target: DiskWatch.Target) {
        switch event.operation {
        case Int32(DISK_WRITE), Int32(DISK_RESIZE), Int32(DISK_COPY):
            if let inode = target.inode, let path = target.path { preserveFile(inode, "\(path)") }
        case Int32(DISK_CREATE), Int32(DISK_REMOVE), Int32(DISK_RENAME):
            for path in [event.path, event.other].compactMap({ $0 }).map({ String(cString: $0) }) {
                preserveFolder(Path.parent(of: path))
                guard let status = try? FileSystem.status(path) else { continue }
                if status.isFile { preserveFile(status.inode, path) }
                if status.isDirectory { preserveFolder(path) }
            }
        default: break
        }
    }

    private func preserveFile(_ inode: UInt64, _ path: String) {
        guard state.withLock({ $0.files[inode] == nil }) else { return }
        let bytes = DiskImage.bytes(path)
        state.withLock { $0.files[inode] = File(durable: bytes) }
    }

    private func preserveFolder(_ path: String) {
        guard let inode = try? FileSystem.status(path).inode, state.withLock({ $0.folders[inode] == nil }) else { return }
        let names = DiskImage.names(path)
        state.withLock { $0.folders[inode] = names }
    }

    func after(_ event: disk_event, _ target: DiskWatch.Target) {
        if target.isContent, event.operation == Int32(DISK_WRITE) || event.operation == Int32(DISK_RESIZE) {
            stampContent(event.fd)
        }
        guard losesPower else { return }
        switch event.operation {
        case Int32(DISK_WRITE): noteWrite(target, Int(event.offset)..<Int(event.offset + event.length))
        case Int32(DISK_RESIZE): noteWrite(target, Int(event.length)..<Int(event.length))
        case Int32(DISK_COPY): noteWrite(target, 0..<Int.max)
        case Int32(DISK_CREATE): noteCreation(event)
        case Int32(DISK_SYNC): noteSync(target)
        case Int32(DISK_SYNC_ALL): noteSyncOfAll()
        default: break
        }
    }

    /// Files get the time of the virtual clock.
    private func stampContent(_ fd: Int32) {
        let now = timekeeper.now()
        let time = timespec(tv_sec: Int(now.seconds), tv_nsec: Int(now.subsecondNanoseconds))
        _ = futimens(fd, [time, time])
    }

    private func noteWrite(_ target: DiskWatch.Target, _ range: Range<Int>) {
        guard let inode = target.inode else { return }
        state.withLock { state in
            var file = state.files.removeValue(forKey: inode) ?? File(durable: [])
            file.isChanged = true
            if let last = file.changed.last, last.upperBound == range.lowerBound {
                file.changed[file.changed.count - 1] = last.lowerBound..<range.upperBound
            } else if !range.isEmpty {
                file.changed.append(range)
            }
            state.files[inode] = file
        }
    }

    private func noteCreation(_ event: disk_event) {
        guard let path = event.path, let status = try? FileSystem.status(String(cString: path)) else { return }
        state.withLock { state in
            if status.isDirectory { state.folders[status.inode] = [:] } else {
                state.files[status.inode] = File(durable: [])
            }
        }
    }

    private func noteSync(_ target: DiskWatch.Target) {
        guard let inode = target.inode, let path = target.link else { return }
        if target.isDirectory {
            guard state.withLock({ $0.folders[inode] != nil }) else { return }
            let names = DiskImage.names(path)
            state.withLock { $0.folders[inode] = names }
        } else {
            syncFile(inode, path)
        }
    }

    private func syncFile(_ inode: UInt64, _ path: String) {
        guard var file = state.withLock({ $0.files[inode] }), file.isChanged else { return }
        state.withLock { $0.files[inode]?.durable = [] }
        DiskImage.bring(&file.durable, upTo: path, changed: file.changed)
        file.changed = []
        file.isChanged = false
        state.withLock { [file] in $0.files[inode] = file }
    }

    private func noteSyncOfAll() {
        DiskImage.walk(folder) { path, status in
            if status.isDirectory {
                let names = DiskImage.names(path)
                state.withLock { if $0.folders[status.inode] != nil { $0.folders[status.inode] = names } }
            } else {
                syncFile(status.inode, path)
            }
        }
    }
}
