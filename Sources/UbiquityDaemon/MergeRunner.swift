import Logging
import UbiquityContent
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Runs the merge commands configured for file types on new conflicts, a few at a time. It merges one conflict of an
/// item at a time, because each merge makes another version current.
///
/// `merge.EXTENSION = COMMAND` runs as `COMMAND BASE OURS THEIRS OUT`: the common version (empty if each was made by
/// itself), the current version, the version in conflict, and the file to write. Exit code 0 makes the written file the
/// new version and resolves the conflict. Any other code leaves the conflict. The conflict also stays if the cloud no
/// longer keeps the common version: a command would take additions of one side for removals of the other.
final class MergeRunner: Sendable {
    /// A command that takes longer is killed.
    private static let timeLimit = Duration.seconds(60)
    /// Commands that run at the same time, so that one that hangs does not delay the others.
    private static let concurrency = 3
    /// The device that lost merges at once; any other device waits this long. The first may be gone, or have no
    /// command, and two merges of one conflict are one too many.
    private static let patience = Duration.seconds(15)
    /// Interval of looking for conflicts, besides events.
    private static let interval = Duration.seconds(30)
    /// Files examined in one go.
    private static let limit = 1000
    /// Bytes of a command's output that are shown.
    private static let shownOutput = 400

    private struct State {
        /// Why a conflict was not merged, and the current version then: another current version allows another attempt.
        var failures: [VersionID: (current: VersionID?, reason: String)] = [:]
        var seen: [VersionID: Duration] = [:]
        /// Items whose conflict is being merged.
        var running: Set<ItemID> = []
        /// Items whose conflict could not be examined, because the cloud was unreachable or the conflict changed, and
        /// until when they pause. An event ends the pause.
        var rests: [ItemID: Duration] = [:]
        var isOver = false
    }

    private let parts: MountParts
    /// A thread for each command, and one that looks for others meanwhile.
    private let pool = BlockingPool(name: "merge", threads: MergeRunner.concurrency + 1)
    private let state = Lock(State())
    private let news: AsyncStream<Void>
    private let source: AsyncStream<Void>.Continuation

    init(_ parts: MountParts) {
        self.parts = parts
        (news, source) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        parts.index.observe { [source, state] events in
            // A local change brings no conflict that can be merged at once: it must be uploaded first.
            let isNews = events.contains { $0.origin != .local && ($0.kind == .versions || $0.kind == .replaced) }
            guard isNews else { return }
            state.withLock { $0.rests = [:] }
            source.yield()
        }
    }

    private var folder: String { Path.join(parts.folder.staging, "merge") }

    /// Why a conflict was not merged; nil if that was not tried.
    func failure(of version: VersionID) -> String? { state.withLock { $0.failures[version]?.reason } }

    /// Runs until the task is cancelled; then a running command is killed.
    func run() async {
        await withTaskCancellationHandler {
            await runAll()
        } onCancel: {
            state.withLock { $0.isOver = true }
        }
    }

    private func runAll() async {
        let clock = Task { [source, parts] in
            while (try? await parts.timekeeper.sleep(for: Self.interval)) != nil { source.yield() }
        }
        defer { clock.cancel() }
        source.yield()
        await withDiscardingTaskGroup { group in
            for await _ in news {
                do {
                    for job in try await pool.run({ try self.begin() }) {
                        _ = group.addTaskUnlessCancelled { await self.attempt(job) }
                    }
                } catch {
                    guard !Task.isCancelled else { return }
                    parts.logger.warning("cannot look for conflicts to merge", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    // MARK: Selection

    private struct Job: Sendable {
        var row: ItemRow
        var current: VersionID
        var conflict: RemoteVersion
        var command: String
    }

    /// Chooses the next merges, one per item and as many as may still run, and marks them as running.
    private func begin() throws -> [Job] {
        let now = parts.timekeeper.uptime()
        let busy = state.withLock { state in
            state.rests = state.rests.filter { $0.value > now }
            return state.running.union(state.rests.keys)
        }
        guard state.withLock({ $0.running.count < Self.concurrency }) else { return [] }
        let waiting = try jobs().filter { !busy.contains($0.row.id) }
        return state.withLock { state in
            let next = waiting.prefix(Self.concurrency - state.running.count)
            state.running.formUnion(next.map(\.row.id))
            return Array(next)
        }
    }

    private func attempt(_ job: Job) async {
        do {
            try await merge(job)
            state.withLock { $0.failures[job.conflict.id] = nil }
        } catch {
            if !Task.isCancelled { note(error, job) }
        }
        state.withLock { _ = $0.running.remove(job.row.id) }
        // Another merge may have waited for this one's end.
        source.yield()
    }

    private func jobs() throws -> [Job] {
        guard try !parts.index.read({ try $0.itemsInConflict(limit: 1) }).isEmpty else {
            state.withLock { state in
                state.failures = [:]
                state.seen = [:]
            }
            return []
        }
        let configuration = try UserConfiguration.load()
        guard configuration.hasMergeCommands else { return [] }
        return try mergeable(configuration).compactMap { row, remote, command in
            guard
                // With local edits not uploaded yet, wait: their upload may be a conflict of its own.
                !row.dirty.contains(.content), !row.isWriting, let current = remote?.content,
                current.version == row.version, current.isAvailable
            else { return nil }
            let versions = try parts.index.read { try $0.conflicts(of: row.id) }
            guard let conflict = versions.last(where: { isDue($0, current: current.version) }) else { return nil }
            return Job(row: row, current: current.version, conflict: conflict, command: command)
        }
    }

    /// Files in conflict that have a merge command; only these count for the limit.
    private func mergeable(
        _ configuration: UserConfiguration
    ) throws -> [(row: ItemRow, remote: RemoteItem?, command: String)] {
        var found = [(row: ItemRow, remote: RemoteItem?, command: String)](), key = ItemKey(0)
        while found.count < Self.limit {
            let page = try parts.index.read { [key] reader in
                try reader.itemsInConflict(after: key, limit: Self.limit).map { ($0, try reader.remote(id: $0.id)) }
            }
            guard let last = page.last else { break }
            key = last.0.key
            for (row, remote) in page {
                guard let command = row.entry.flatMap({ configuration.mergeCommand(for: $0.name) }) else { continue }
                found.append((row, remote, command))
            }
        }
        return Array(found.prefix(Self.limit))
    }

    private func isDue(_ conflict: RemoteVersion, current: VersionID) -> Bool {
        guard conflict.content.isAvailable else { return false }
        let now = parts.timekeeper.uptime()
        return state.withLock { state in
            if let failure = state.failures[conflict.id], failure.current == current { return false }
            let since = state.seen[conflict.id] ?? now
            state.seen[conflict.id] = since
            return conflict.content.device == parts.identity.id || now - since >= Self.patience
        }
    }

    private func note(_ error: any Error, _ job: Job) {
        let error = error as? UbiquityError ?? UbiquityError(.io, "\(error)")
        // Unreachable or changed meanwhile: try again later.
        guard ![.offline, .timedOut, .stale, .cancelled].contains(error.code) else {
            let end = parts.timekeeper.uptime() + Self.interval
            return state.withLock { $0.rests[job.row.id] = end }
        }
        parts.logger.warning(
            "a conflict was not merged",
            metadata: ["file": "\(job.row.entry?.name.description ?? "")", "reason": "\(error)"])
        state.withLock { state in
            // The largest possible number for the examined files: forgetting them earlier would repeat all attempts.
            if state.failures.count >= Self.limit * Limits.maximumConflictsInRecord { state.failures = [:] }
            state.failures[job.conflict.id] = (job.current, error.description)
        }
    }

    // MARK: One merge

    private func merge(_ job: Job) async throws {
        let versions = try await parts.engine.versions.allVersions(of: job.row.id)
        guard let current = versions.first(where: { $0.id == job.current }), current.kind == .current else {
            throw UbiquityError(.stale, "the file has changed meanwhile")
        }
        let base = try Self.base(of: job.conflict, current, among: versions)
        let suffix = String(decoding: job.row.entry?.name.stemAndExtension.suffix ?? [], as: UTF8.self)
        // A number that no other merge had: the command of a killed daemon may still be ending, and must not write to
        // this one's files.
        let work = Path.join(folder, "\(try parts.index.newContentNumber())")
        defer { try? FileSystem.removeTree(work) }
        try describing("make the folder of a merge", at: work) { () throws(Errno) in
            do throws(Errno) { try FileSystem.removeTree(work) } catch { guard error == .ENOENT else { throw error } }
            try FileSystem.makeDirectories(work)
        }
        let paths = ["base", "ours", "theirs", "out"].map { Path.join(work, $0 + suffix) }
        for (version, path) in zip([base, current, job.conflict], paths) { try await put(version, at: path) }
        try await pool.run { [self] in
            try execute(job.command, paths, folder: work)
            try take(paths[3], job)
        }
    }

    private static func base(
        of conflict: RemoteVersion, _ current: RemoteVersion, among versions: [RemoteVersion]
    ) throws -> RemoteVersion? {
        switch CommonVersion(of: conflict, current, among: versions) {
        case .version(let version): return version
        case .none: return nil
        case .awaited: throw UbiquityError(.stale, "the common version has not been uploaded yet")
        case .notKept:
            throw UbiquityError(
                .notFound, "the cloud no longer keeps the common version",
                remedy: "merge the versions in '.versions' by hand")
        }
    }

    /// Writes a version's content to a file; an empty file for nil.
    private func put(_ version: RemoteVersion?, at path: String) async throws {
        guard let version else {
            return try describing("create a file of a merge", at: path) { () throws(Errno) in
                _ = try FileDescriptor.open(path, [.readWrite, .create, .exclusive])
            }
        }
        let content = try await parts.engine.versionDownloads.copy(version)
        try describing("create a file of a merge", at: path) { [parts] () throws(Errno) in
            try FileSystem.rename(parts.contents.path(of: content), to: path)
        }
    }

    private func execute(_ command: String, _ paths: [String], folder: String) throws {
        let (log, outcome) = try describing("run the merge command") { () throws(Errno) in
            let log = try FileDescriptor.open(Path.join(folder, "log"), [.readWrite, .create])
            let outcome = try LimitedProcess.run(
                script: command + " \"$@\"", paths, folder: folder, log: log, atMost: Self.timeLimit,
                unless: { state.withLock { $0.isOver } })
            return (log, outcome)
        }
        let reason: String
        switch outcome {
        case .exited(0): return
        case .exited(let code): reason = "it ended with exit code \(code)"
        case .killed(let signal): reason = "it was ended by signal \(signal)"
        case .outOfTime: reason = "it took longer than \(Self.timeLimit)"
        case .ended: throw UbiquityError(.cancelled, "the mount has ended")
        }
        // Only the beginning, however long it is, and also if the command removed the file.
        let said = try describing("read the output of the merge command") { () throws(Errno) in
            try log.read(count: Self.shownOutput, at: 0)
        }
        let text = String(decoding: said, as: UTF8.self).split(whereSeparator: \.isNewline).joined(separator: " ")
        throw UbiquityError(
            .invalid, "the merge command failed: \(reason)" + (text.isEmpty ? "" : ": \(text)"), at: command)
    }

    /// Makes the command's output the file's content.
    private func take(_ path: String, _ job: Job) throws {
        let (size, isFile) = try describing("examine the result of a merge", at: path) { () throws(Errno) in
            do throws(Errno) {
                let status = try FileSystem.status(path)
                return (status.size, status.kind == .file)
            } catch .ENOENT { return (0, false) }
        }
        guard isFile else { throw UbiquityError(.invalid, "the merge command wrote no file", at: job.command) }
        let content = ContentID(try parts.index.newContentNumber())
        parts.engine.fetch.inUse.recordMade(content)
        do {
            let file = try parts.contents.create(content)
            try describing("apply the result of a merge", at: path) { () throws(Errno) in
                let result = try FileDescriptor.open(path, .readOnly)
                guard try file.copy(from: result, at: 0, to: 0, count: size) == size else { throw .EIO }
            }
            try parts.contents.noteReplacement(content)
            let replaced = try parts.index.replace(
                job.row.key, generation: job.row.generation, version: job.current, with: content, size: size,
                resolving: job.conflict.id)
            guard case .some(let old) = replaced else {
                throw UbiquityError(.stale, "the file has changed meanwhile")
            }
            if let old { parts.contents.retire([old]) }
        } catch {
            // Once the index has the content, only the removal of the old one can fail; the next start makes up for
            // that.
            if try parts.index.read({ try $0.row(content: content) }) == nil { try parts.contents.remove(content) }
            throw error
        }
        parts.logger.info("merged a conflict", metadata: ["file": "\(job.row.entry?.name.description ?? "")"])
    }
}
