import Logging
import UbiquityContent
import UbiquityControl
import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// Runs the merge commands that are configured for types of files, a few at a time, on conflicts as they appear; of one
/// item one conflict at a time, as each merge makes another version current.
///
/// `merge.EXTENSION = COMMAND` runs as `COMMAND BASE OURS THEIRS OUT`: the version both were made from (empty if each
/// was made by itself), the current one, the one in conflict, and the file to write. Exit code 0 makes what was written
/// the new version and resolves the conflict; anything else leaves the conflict as it is. It also stays if the cloud
/// does not keep the common version any more: to a command, what one side has would be missing on the other.
final class MergeRunner: Sendable {
    /// A command that takes longer is killed.
    private static let timeLimit = Duration.seconds(60)
    /// Commands that run at the same time: one that hangs does not hold up the others.
    private static let concurrency = 3
    /// The device that lost merges at once. Another one waits that long: the first may be gone, or have no command, and
    /// two merges of one conflict are one too many.
    private static let patience = Duration.seconds(15)
    /// Looked for conflicts this often, besides when there is news.
    private static let interval = Duration.seconds(30)
    /// Files looked at in one go.
    private static let limit = 1000
    /// Bytes of what a command said that are shown.
    private static let shownOutput = 400

    private struct State {
        /// Why a conflict was not merged, and what was current then: another current version is worth another attempt.
        var failures: [VersionID: (current: VersionID?, reason: String)] = [:]
        var seen: [VersionID: Duration] = [:]
        /// Items whose conflict is being merged.
        var running: Set<ItemID> = []
        /// Until when an item rests whose conflict could not be looked at: the cloud was away, or it changed meanwhile.
        /// News ends that.
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
            // What programs do brings no conflict that could be merged at once: what they wrote has to go up first.
            let isNews = events.contains { $0.origin != .local && ($0.kind == .versions || $0.kind == .replaced) }
            guard isNews else { return }
            state.withLock { $0.rests = [:] }
            source.yield()
        }
    }

    private var folder: String { Path.join(parts.folder.staging, "merge") }

    /// Why a conflict was not merged; nil if that was not tried.
    func failure(of version: VersionID) -> String? { state.withLock { $0.failures[version]?.reason } }

    /// Until the task is cancelled; a command that runs then is killed.
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

    // MARK: Which

    private struct Job: Sendable {
        var row: ItemRow
        var current: VersionID
        var conflict: RemoteVersion
        var command: String
    }

    /// The next ones, one of each item, as many as may run beside those that do; they count as running.
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
        // Another may have waited for its end.
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
                // What was edited here is not the whole story yet: its upload may be a conflict of its own.
                !row.dirty.contains(.content), !row.isWriting, let current = remote?.content,
                current.version == row.version, current.isAvailable
            else { return nil }
            let versions = try parts.index.read { try $0.conflicts(of: row.id) }
            guard let conflict = versions.last(where: { isDue($0, current: current.version) }) else { return nil }
            return Job(row: row, current: current.version, conflict: conflict, command: command)
        }
    }

    /// Files in conflict for which there is a command; only these count for the limit.
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
        // Away or changed meanwhile: it is tried again.
        guard ![.offline, .timedOut, .stale, .cancelled].contains(error.code) else {
            let end = parts.timekeeper.uptime() + Self.interval
            return state.withLock { $0.rests[job.row.id] = end }
        }
        parts.logger.warning(
            "a conflict was not merged",
            metadata: ["file": "\(job.row.entry?.name.description ?? "")", "reason": "\(error)"])
        state.withLock { state in
            // As many as there can be of the files that are looked at: to forget them would be to try them all again.
            if state.failures.count >= Self.limit * Limits.maximumConflictsInRecord { state.failures = [:] }
            state.failures[job.conflict.id] = (job.current, error.description)
        }
    }

    // MARK: One merge

    private func merge(_ job: Job) async throws {
        let versions = try await parts.engine.allVersions(of: job.row.id)
        guard let current = versions.first(where: { $0.id == job.current }), current.kind == .current else {
            throw UbiquityError(.stale, "the file has changed meanwhile")
        }
        let base = try Self.base(of: job.conflict, current, among: versions)
        let suffix = String(decoding: job.row.entry?.name.stemAndExtension.suffix ?? [], as: UTF8.self)
        // A number that no other merge ever had: the command of a daemon that was killed may be ending still, and must
        // not write into this one's files.
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
        case .awaited: throw UbiquityError(.stale, "the version that both were made from is still on its way")
        case .notKept:
            throw UbiquityError(
                .notFound, "the cloud does not keep the version that both were made from",
                remedy: "merge the versions in '.versions' by hand")
        }
    }

    /// Writes a version's content to a file; nothing is an empty one.
    private func put(_ version: RemoteVersion?, at path: String) async throws {
        guard let version else {
            return try describing("make a file of a merge", at: path) { () throws(Errno) in
                _ = try FileDescriptor.open(path, [.readWrite, .create, .exclusive])
            }
        }
        let content = try await parts.engine.copy(version)
        try describing("make a file of a merge", at: path) { [parts] () throws(Errno) in
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
        // However much more it said, and also if it has removed the file.
        let said = try describing("read what the merge command said") { () throws(Errno) in
            try log.read(count: Self.shownOutput, at: 0)
        }
        let text = String(decoding: said, as: UTF8.self).split(whereSeparator: \.isNewline).joined(separator: " ")
        throw UbiquityError(
            .invalid, "the merge command failed: \(reason)" + (text.isEmpty ? "" : ": \(text)"), at: command)
    }

    /// Makes what the command wrote the file's content.
    private func take(_ path: String, _ job: Job) throws {
        let (size, isFile) = try describing("look at the result of a merge", at: path) { () throws(Errno) in
            do throws(Errno) {
                let status = try FileSystem.status(path)
                return (status.size, status.kind == .file)
            } catch .ENOENT { return (0, false) }
        }
        guard isFile else { throw UbiquityError(.invalid, "the merge command wrote no file", at: job.command) }
        let content = ContentID(try parts.index.newContentNumber())
        parts.engine.noteMade(content)
        do {
            let file = try parts.contents.create(content)
            try describing("take the result of a merge", at: path) { () throws(Errno) in
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
            // Once the index has it, only the removal of the old one can fail, which the next start makes up for.
            if try parts.index.read({ try $0.row(content: content) }) == nil { try parts.contents.remove(content) }
            throw error
        }
        parts.logger.info("merged a conflict", metadata: ["file": "\(job.row.entry?.name.description ?? "")"])
    }
}
