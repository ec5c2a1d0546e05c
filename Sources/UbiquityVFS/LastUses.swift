internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// When programs last used a file, for the choice of items to evict.
///
/// It holds the uses that the index does not have yet (`UseLog`). `FileOpening` and `OpenFiles` report uses. It calls
/// the index only.
final class LastUses: Room {
    let context: FileSystemContext
    private let log = UseLog()

    init(_ context: FileSystemContext) {
        self.context = context
    }

    /// Whether the open counts as a use when items are chosen for eviction. A backup or a scanner opens every file;
    /// counting that would make its walk the order of eviction. The check of the program takes some 20 µs and is made
    /// once a day per file.
    func isUse(_ row: ItemRow, _ caller: Caller) -> Bool {
        let now = context.parts.timekeeper.now()
        let isRecent = now.nanoseconds &- row.usedAt.nanoseconds < UseLog.day || now < row.usedAt
        return isRecent || log.contains(row.ino) || !context.parts.backgroundReaders.isOne(caller.pid)
    }

    /// Whether the close is a use that the log does not have. A file open all day was not last used in the morning. For
    /// a new file the index has its creation time; that is enough if the file closes soon.
    func isUsedTill(_ file: OpenFile) -> Bool {
        if file.flags.contains(.counted) { return true }
        guard file.flags.contains(.create), let row = try? index.row(ino: file.node.ino) else { return false }
        return context.parts.timekeeper.now().nanoseconds &- row.usedAt.nanoseconds > UseLog.making
    }

    /// Records a use of the file now.
    func record(_ ino: UInt64) {
        write(uses: log.add(ino, now: context.parts.timekeeper.now()))
    }

    /// Writes the times of last use to the index. Eviction calls it before it sorts items by last use.
    func flush() { write(uses: log.removeAll(now: context.parts.timekeeper.now())) }

    /// The same if the last time is long enough ago.
    func flushIfDue() { write(uses: log.removeAllIfDue(now: context.parts.timekeeper.now())) }

    private func write(uses: [UInt64: Timestamp]) {
        var rest = uses[...]
        do {
            while !rest.isEmpty {
                try index.noteUses(rest.prefix(UseLog.batch).map { (ino: $0.key, time: $0.value) })
                rest = rest.dropFirst(UseLog.batch)
            }
        } catch {
            logger.warning("cannot record when files were last used", metadata: ["error": "\(error)"])
        }
    }
}
