internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// Folders whose ignore file may say something else than when it was last read.
final class ChangedIgnoreFiles: Sendable {
    private let folders = Lock<Set<ItemKey>>([])

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

    private func refreshIgnoreFile(of folder: ItemKey) throws {
        guard let row = try index.child(of: folder, named: IgnoreRules.fileName), row.kind == .file else {
            return try index.setIgnoreText(nil, of: folder)
        }
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
