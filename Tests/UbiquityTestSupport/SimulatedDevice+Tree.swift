internal import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityVFS

// The operations of programs on names, folders and attributes.
extension SimulatedDevice {
    package static func names(_ path: String) throws -> [ItemName] {
        try path.split(separator: "/").map { try ItemName(String($0)) }
    }

    package func row(_ path: String) throws -> ItemRow? { try index.read { try $0.row(path: Self.names(path)) } }

    /// The item; throws `.notFound` if there is none.
    package func live(_ path: String) throws -> ItemRow {
        guard let row = try row(path) else { throw UbiquityError(.notFound, "no such item", at: path) }
        return row
    }

    func place(_ path: String) throws -> (folder: ItemRow, name: ItemName) {
        let names = try Self.names(path)
        guard let name = names.last, let folder = try index.read({ try $0.row(path: names.dropLast()) }) else {
            throw UbiquityError(.notFound, "no such folder", at: path)
        }
        return (folder, name)
    }

    package func makeFolder(_ path: String) throws {
        let (folder, name) = try place(path)
        _ = try life.claimedFileSystem.makeDirectory(
            parent: folder.ino, name: name.bytes, mode: 0o755, caller: caller).immediate
    }

    package func makeLink(_ path: String, to text: String) throws {
        let (folder, name) = try place(path)
        _ = try life.claimedFileSystem.makeSymlink(
            parent: folder.ino, name: name.bytes, target: Array(text.utf8), caller: caller).immediate
    }

    /// Makes another name for a file.
    package func makeHardLink(_ path: String, to old: String) throws {
        let (folder, name) = try place(path)
        _ = try life.claimedFileSystem.link(live(old).ino, newParent: folder.ino, newName: name.bytes).immediate
    }

    /// Whether the content is removed with this name: the file has no other.
    private func isLastName(_ row: ItemRow) throws -> Bool {
        try row.kind == .directory || life.claimedFileSystem.attributes(of: row.ino).links <= 1
    }

    package func rename(_ old: String, _ new: String, _ mode: RenameMode = .replacing) throws {
        let life = try life
        let (from, oldName) = try place(old)
        let (into, newName) = try place(new)
        let source = try live(old), target = try row(new)
        let flags: UInt32 = switch mode { case .replacing: 0; case .exclusive: 1; case .exchanging: 2 }
        // Two files that exchange places keep their contents.
        let isReplacing = target.map { mode == .replacing && $0.key != source.key } ?? false
        let isLast = try target.map(isLastName) ?? true
        let taken = isReplacing && isLast ? ledger.take(target?.content) : [:]
        do {
            try life.claimedFileSystem.rename(
                parent: from.ino, name: oldName.bytes, newParent: into.ino, newName: newName.bytes, flags: flags,
                caller: caller).immediate
        } catch {
            if life.isAlive { ledger.putBack(taken) }
            throw error
        }
    }

    /// Removes a file, a link, or a folder with everything in it.
    package func remove(_ path: String) throws {
        let row = try live(path), life = try life
        if row.kind == .directory {
            for child in try children(of: row) {
                guard let entry = child.entry, life.isAlive else { continue }
                try remove("\(path)/\(entry.name)")
            }
        }
        let (folder, name) = try place(path)
        let taken = try isLastName(row) ? ledger.take(row.content) : [:]
        do {
            if row.kind == .directory {
                try life.claimedFileSystem.removeDirectory(parent: folder.ino, name: name.bytes).immediate
            } else {
                try life.claimedFileSystem.unlink(parent: folder.ino, name: name.bytes, caller: caller).immediate
            }
        } catch {
            if life.isAlive { ledger.putBack(taken) }
            throw error
        }
    }

    package func children(of folder: ItemRow) throws -> [ItemRow] {
        try index.read { try $0.children(of: folder.key, after: nil, limit: 10_000) }
    }

    private func change(_ path: String, _ changes: AttributeChanges) throws {
        guard case .now = try life.claimedFileSystem.setAttributes(of: live(path).ino, changes, caller: caller) else {
            throw UbiquityError(.invalid, "a change of attributes waits")
        }
    }

    package func setMode(_ path: String, _ mode: UInt32) throws { try change(path, AttributeChanges(mode: mode)) }

    /// Sets the time, as `touch -d` does.
    package func setModified(_ path: String, _ time: Timestamp) throws {
        try change(path, AttributeChanges(modifiedAt: .at(time)))
    }

    package func setXattr(_ path: String, _ name: String, _ value: String) throws {
        _ = try life.claimedFileSystem.setXattr(
            of: live(path).ino, name: Array(name.utf8), value: Array(value.utf8), flags: 0, caller: caller)
    }

    package func removeXattr(_ path: String, _ name: String) throws {
        try life.claimedFileSystem.removeXattr(of: live(path).ino, name: Array(name.utf8), caller: caller).immediate
    }

    // MARK: Sync

    package func evict(_ path: String) throws { try engine.evict(live(path).key) }
    package func pin(_ path: String, _ pinned: Bool = true) throws { try engine.downloader.setPinned(live(path).key, pinned) }
    package func setPaused(_ paused: Bool) throws { try engine.setPaused(paused) }

    /// Every path, in the order of the tree.
    package func paths() throws -> [(path: String, row: ItemRow)] {
        var result = [(String, ItemRow)]()
        func walk(_ folder: ItemRow, _ prefix: String) throws {
            for child in try children(of: folder) {
                guard let entry = child.entry else { continue }
                result.append((prefix + "\(entry.name)", child))
                if child.kind == .directory { try walk(child, prefix + "\(entry.name)/") }
            }
        }
        guard let root = try index.row(key: .root) else { return [] }
        try walk(root, "")
        return result
    }
}

extension Answer {
    /// The value of an operation that need not wait.
    var immediate: Value {
        get throws {
            guard case .now(let value) = self else { throw Errno.EAGAIN }
            return value
        }
    }
}
