internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// The rules of ignore files. A changed file takes effect with the next created item.
///
/// It holds the folders whose ignore file changed. `KernelNews` reports changes, `Namespace` and the housekeeping ask
/// for the present rules. It calls the index and the content store only.
final class IgnoreFiles: Room {
    let context: FileSystemContext
    private let changed = ChangedIgnoreFiles()

    init(_ context: FileSystemContext) {
        self.context = context
    }

    /// Records an event of an ignore file.
    func observe(_ event: IndexEvent) { changed.observe(event) }

    /// Reads the rules of these folders at the next refresh.
    func add(_ folders: [ItemKey]) { changed.add(folders) }

    /// Reads the changed ignore files. If one cannot be read, its earlier rules stay in force.
    func refresh() {
        for folder in changed.removeAll() {
            do { try refreshIgnoreFile(of: folder) } catch {
                logger.warning("cannot read an ignore file", metadata: ["folder": "\(folder)", "error": "\(error)"])
            }
        }
    }

    /// Whether items that an ignore file excluded may soon be synced, because the file may be gone for good.
    var isWaiting: Bool { changed.isWaiting(now: context.parts.timekeeper.uptime()) }

    private func refreshIgnoreFile(of folder: ItemKey) throws {
        let known = try index.read { try $0.ignoreText(of: folder) }
        let row = try index.child(of: folder, named: IgnoreRules.fileName).flatMap { $0.kind == .file ? $0 : nil }
        if known != nil, row?.isWriting ?? true {
            let above = try index.row(key: folder)
            // The folder was deleted remotely and remains only for its excluded items; their rules stay.
            if let above, above.flags.contains(.lingering) { return changed.recordText(of: folder) }
            let now = context.parts.timekeeper.uptime()
            guard above == nil || changed.isMeant(folder, isGone: row == nil, now: now) else { return }
        }
        if row?.isWriting != true { changed.recordText(of: folder) }
        guard let row else { return try index.setIgnoreText(nil, of: folder) }
        // A placeholder's text arrives by itself.
        guard row.contentState == .complete, let content = row.content else { return }
        // Writes to an open file do not notify the index, and its close may come late. So check it again.
        if row.isWriting { changed.add([folder]) }
        let text = try contents.open(content, writable: false).read(count: IgnoreRules.maximumLength + 1, at: 0)
        guard text.count <= IgnoreRules.maximumLength else {
            throw UbiquityError(.tooLarge, "an ignore file has at most \(IgnoreRules.maximumLength) bytes")
        }
        try index.setIgnoreText(text, of: folder)
    }
}

/// Folders whose ignore file may have changed since it was last read.
final class ChangedIgnoreFiles: Sendable {
    /// How long the rules of an ignore file stay in force while it is missing or being rewritten: as long as a
    /// tunnelled name is remembered. Programs that save by removing and creating, or that pause
    /// between emptying and writing, do not mean to drop the rules. Neither does a device that removes the whole
    /// folder.
    private static let grace = Duration.seconds(15)

    private let folders = Lock<Set<ItemKey>>([])
    /// By folder: since when the complete text is missing, by the machine's uptime, and whether the file is missing
    /// too.
    private let withoutText = Lock<[ItemKey: (since: Duration, isGone: Bool)]>([:])

    /// Records that the complete text is missing.
    /// - Returns: whether it has been missing long enough to count. If not, the folder is checked again.
    func isMeant(_ folder: ItemKey, isGone: Bool, now: Duration) -> Bool {
        let since = withoutText.withLock { known in
            let since = known[folder]?.since ?? now
            known[folder] = (since, isGone)
            return since
        }
        guard now - since < Self.grace else { return true }
        add([folder])
        return false
    }

    /// Whether the rules of some ignore file are still undecided.
    func isWaiting(now: Duration) -> Bool {
        withoutText.withLock { $0.values.contains { $0.isGone || now - $0.since < Self.grace } }
    }

    func recordText(of folder: ItemKey) { withoutText.withLock { _ = $0.removeValue(forKey: folder) } }

    /// Records an event of an ignore file.
    func observe(_ event: IndexEvent) {
        for entry in [event.before?.entry, event.after?.entry] {
            if let entry, entry.name == IgnoreRules.fileName { add([entry.parent]) }
        }
    }

    func add(_ changed: [ItemKey]) { if !changed.isEmpty { folders.withLock { $0.formUnion(changed) } } }

    func removeAll() -> Set<ItemKey> {
        folders.withLock { folders in
            guard !folders.isEmpty else { return [] }
            defer { folders = [] }
            return folders
        }
    }
}
