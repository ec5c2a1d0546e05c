internal import UbiquityContent
package import UbiquityCore
package import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

// What a user does with names, folders and attributes.
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
        _ = try index.create(in: folder.ino, named: name, NewItem(kind: .directory, mode: 0o755, uid: 1000, gid: 1000))
    }

    package func makeLink(_ path: String, to text: String) throws {
        let (folder, name) = try place(path)
        _ = try index.create(
            in: folder.ino, named: name,
            NewItem(kind: .symlink, mode: 0o777, uid: 1000, gid: 1000, linkTarget: Array(text.utf8)))
    }

    package func rename(_ old: String, _ new: String, _ mode: RenameMode = .replacing) throws {
        let (from, oldName) = try place(old)
        let (into, newName) = try place(new)
        let source = try live(old)
        let result = try index.rename(from: from.ino, oldName, to: into.ino, newName, mode)
        guard let replaced = result.replaced else { return }
        if result.moved.key == replaced.key {
            ledger.move(from: source, to: replaced)
        } else {
            ledger.giveUp(replaced)
        }
        if let content = replaced.content { try store.remove(content) }
    }

    /// Removes a file, link or folder with all that is in it.
    package func remove(_ path: String) throws {
        let row = try live(path)
        if row.kind == .directory {
            for child in try children(of: row) {
                guard let entry = child.entry else { continue }
                try remove("\(path)/\(entry.name)")
            }
        }
        let (folder, name) = try place(path)
        let removed = try index.remove(from: folder.ino, named: name, directory: row.kind == .directory)
        ledger.giveUp(removed)
        if let content = removed.content { try store.remove(content) }
        // A backup that is deleted: the document is back at its name, with what was saved there.
        guard let back = try index.row(key: removed.key), !back.isDeleted, let content = back.content else { return }
        let bytes = try read(store.open(content, writable: false))
        try ledger.move(Self.fingerprint(bytes), to: back.key) { try index.row(key: $0)?.isDeleted ?? true }
    }

    package func children(of folder: ItemRow) throws -> [ItemRow] {
        try index.read { try $0.children(of: folder.key, after: nil, limit: 10_000) }
    }

    package func setMode(_ path: String, _ mode: UInt32) throws {
        _ = try index.setAttributes(ino: live(path).ino, AttributeChange(mode: mode))
    }

    /// As `touch -d`: the backing file has the time too.
    package func setModified(_ path: String, _ time: Timestamp) throws {
        let row = try live(path)
        if let content = row.content, row.contentState == .complete {
            try store.open(content, writable: true).setTimes(accessed: nil, modified: time)
        }
        _ = try index.setAttributes(ino: row.ino, AttributeChange(modifiedAt: time))
    }

    package func setXattr(_ path: String, _ name: String, _ value: String) throws {
        let xattr = Xattr(name: Array(name.utf8), value: Array(value.utf8))
        try index.setXattr(ino: live(path).ino, xattr, .any)
    }

    package func removeXattr(_ path: String, _ name: String) throws {
        try index.removeXattr(ino: live(path).ino, named: Array(name.utf8))
    }

    // MARK: Sync

    package func evict(_ path: String) throws { try engine.evict(live(path).key) }
    package func pin(_ path: String, _ pinned: Bool = true) throws { try engine.setPinned(live(path).key, pinned) }
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
