import Logging
import UbiquityControl
import UbiquityCoordination
import UbiquityCore
import UbiquityIndex
import UbiquitySystem

/// Writes each new conflict to the log and to a file. The next interactive command reads the file and announces it.
///
/// `EventPump` sends the events for listeners. This watch notices conflicts with or without listeners.
final class ConflictWatch: Sendable {
    private let parts: MountParts
    private let news: ItemNews
    /// One thread, so that a conflict is announced before its decision.
    private let pool = BlockingPool(name: "conflicts", threads: 1)

    /// Create it before the engine runs: conflicts that exist by then are not new.
    init(_ parts: MountParts) {
        self.parts = parts
        news = ItemNews(parts.index)
        news.noteConflicts()
        parts.index.observe { [weak self] changes in self?.take(changes) }
    }

    /// Runs on the committing thread.
    private func take(_ changes: [IndexEvent]) {
        let relevant = changes.filter { $0.kind == .versions }
        guard !relevant.isEmpty else { return }
        // Beyond the pool's limit the notice is lost; `status` still counts the conflict.
        _ = pool.start { for change in relevant { self.examine(change) } }
    }

    private func examine(_ change: IndexEvent) {
        guard let row = change.after ?? change.before else { return }
        for event in news.events(of: change) where event.isConflict == true {
            guard let version = event.version else { continue }
            do {
                switch event.kind {
                case .versionGained: try announce(version, of: row, at: event.path ?? "")
                case .versionResolved: try update { $0.remove(version: version) }
                default: break
                }
            } catch {
                parts.logger.warning("a conflict cannot be announced", metadata: ["error": "\(error)"])
            }
        }
    }

    private func announce(_ version: String, of row: ItemRow, at path: String) throws {
        let (other, current) = try parts.index.read { reader in
            (try reader.conflicts(of: row.id).first { $0.id.description == version },
                try reader.remote(id: row.id)?.content)
        }
        guard let other else { return }
        let conflict = ConflictNotices.Conflict(
            path: path, device: current?.deviceName, otherName: other.savedName.description,
            otherDevice: other.content.deviceName, version: version)
        parts.logger.warning(
            "conflict: two devices changed the same item; both versions are kept until one is chosen",
            metadata: [
                "path": "\(conflict.path)", "device": "\(conflict.device ?? "unknown")",
                "other name": "\(conflict.otherName)", "other device": "\(conflict.otherDevice)",
            ])
        try update { $0.add(conflict) }
    }

    private func update(_ change: (inout ConflictNotices) -> Void) throws {
        let path = Path.join(parts.home.path, ConflictNotices.fileName)
        let known = try SmallFile.read(path, limit: ConflictNotices.maximumLength)
        // An unreadable file is replaced: it contains only notices.
        let before = known.flatMap { try? ControlCodec.decode(ConflictNotices.self, from: $0) } ?? ConflictNotices()
        var notices = before
        change(&notices)
        guard notices != before else { return }
        if notices.isEmpty { try? FileSystem.unlink(path) } else {
            try SmallFile.publish(ControlCodec.encode(notices), at: path)
        }
    }
}
