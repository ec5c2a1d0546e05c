internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Makes empty backing files for files that are about to be created.
///
/// It holds the files that were made ahead (`PreparedContents`) and a stock of content numbers. `Namespace`,
/// `UnnamedFiles` and `Truncation` call it. It calls the content store, the index and the passthrough.
final class NewContents: Room {
    let context: FileSystemContext
    private let prepared: PreparedContents
    private let numbers = ContentNumbers()

    init(_ context: FileSystemContext) {
        self.context = context
        prepared = PreparedContents(pool: context.parts.preparation)
    }

    /// A new empty file, made ahead if possible.
    func make() throws -> NewContent {
        try prepared.next(now: context.parts.timekeeper.now(), from: self) ?? create()
    }

    private func create() throws -> NewContent {
        let id = try nextNumber()
        return NewContent(id: id, file: try contents.create(id))
    }

    func prepareContent() throws -> NewContent {
        var content = try create()
        guard context.parts.passthrough.isActive, let reader = try? content.file.reopenedForReading() else {
            return content
        }
        content.reader = reader
        content.backing = context.parts.passthrough.register(reader)
        return content
    }

    /// Flushes the names. A failure shows when a program syncs one of these files.
    func syncNames(of contents: inout [NewContent]) {
        guard (try? self.contents.syncNames(of: contents.map(\.id))) != nil else { return }
        for position in contents.indices { contents[position].isNameSynced = true }
    }

    /// Discards a content that is not needed.
    func drop(_ content: NewContent) {
        if let backing = content.backing { context.parts.passthrough.unregister(backing) }
        context.drop(content.id)
    }

    /// Stops preparing contents, and discards those that are left. For the end of the mount.
    func end() { prepared.end().forEach(drop) }

    /// The number of the next new content.
    func nextNumber() throws -> ContentID { try numbers.next(from: index) }

    /// Records that a program has synced the name of a new file.
    func observeSync(now: Timestamp) { prepared.observeSync(now: now) }
}
