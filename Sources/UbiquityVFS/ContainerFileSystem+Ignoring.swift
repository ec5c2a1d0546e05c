internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Folders whose ignore file may say something else than when it was last read.
final class ChangedIgnoreFiles: Sendable {
    /// How long the rules of a file that is gone, or is being written anew, stay in force: as long as a name that was
    /// given up is remembered (`design.md` section 4). Programs that save by removing and making, or that take a moment
    /// between emptying a file and writing it, mean no end of its rules; nor does who removes the whole folder
    /// elsewhere.
    private static let grace = Duration.seconds(15)

    private let folders = Lock<Set<ItemKey>>([])
    /// Since when there is no whole text, by the machine's uptime, and whether there is no file either.
    private let withoutText = Lock<[ItemKey: (since: Duration, isGone: Bool)]>([:])

    /// There is no whole text now.
    /// - Returns: whether it has been so for long enough to be meant. If not, the folder is looked at again.
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

    /// Whether it will show only later what some file is to say.
    func isWaiting(now: Duration) -> Bool {
        withoutText.withLock { $0.values.contains { $0.isGone || now - $0.since < Self.grace } }
    }

    func noteText(of folder: ItemKey) { withoutText.withLock { _ = $0.removeValue(forKey: folder) } }

    /// Takes note of what happened to an ignore file.
    func note(_ event: IndexEvent) {
        for entry in [event.before?.entry, event.after?.entry] {
            if let entry, entry.name == IgnoreRules.fileName { add([entry.parent]) }
        }
    }

    func add(_ changed: [ItemKey]) { if !changed.isEmpty { folders.withLock { $0.formUnion(changed) } } }

    func takeAll() -> Set<ItemKey> {
        folders.withLock { folders in
            guard !folders.isEmpty else { return [] }
            defer { folders = [] }
            return folders
        }
    }
}

// Ignore files take effect at the next thing that is made after they were changed.
extension ContainerFileSystem {
    /// Reads the ignore files that have changed. One that cannot be read leaves in force what it said before.
    package func refreshIgnoreFiles() {
        for folder in ignoreFiles.takeAll() {
            do { try refreshIgnoreFile(of: folder) } catch {
                logger.warning("cannot read an ignore file", metadata: ["folder": "\(folder)", "error": "\(error)"])
            }
        }
    }

    /// Whether things may come into sync in a moment that an ignore file has kept local, if that is gone for good.
    package var awaitsIgnoreFiles: Bool { ignoreFiles.isWaiting(now: parts.timekeeper.uptime()) }

    private func refreshIgnoreFile(of folder: ItemKey) throws {
        let known = try index.read { try $0.ignoreText(of: folder) }
        let row = try index.child(of: folder, named: IgnoreRules.fileName).flatMap { $0.kind == .file ? $0 : nil }
        if known != nil, row?.isWriting ?? true {
            let above = try index.row(key: folder)
            // Deleted elsewhere, and there only for what is local in it: that stays so.
            if let above, above.flags.contains(.lingering) { return ignoreFiles.noteText(of: folder) }
            let now = parts.timekeeper.uptime()
            guard above == nil || ignoreFiles.isMeant(folder, isGone: row == nil, now: now) else { return }
        }
        if row?.isWriting != true { ignoreFiles.noteText(of: folder) }
        guard let row else { return try index.setIgnoreText(nil, of: folder) }
        // A placeholder's text comes by itself.
        guard row.contentState == .complete, let content = row.content else { return }
        // What is being written changes without a word to the index, and its close may come late.
        if row.isWriting { ignoreFiles.add([folder]) }
        let text = try contents.open(content, writable: false).read(count: IgnoreRules.maximumLength + 1, at: 0)
        guard text.count <= IgnoreRules.maximumLength else {
            throw UbiquityError(.tooLarge, "an ignore file has at most \(IgnoreRules.maximumLength) bytes")
        }
        try index.setIgnoreText(text, of: folder)
    }
}
