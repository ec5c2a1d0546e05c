import FoundationEssentials
import UbiquityCore
import UbiquitySystem

// Writes a tree of wrappers, but only the files that differ.
extension FileWrapper {
    /// Makes a folder or file hold this tree. Files known to be there already are not written; files there under
    /// another name are renamed; files not in the tree are removed. The order is: write all new files to temporary
    /// names, so a full disk changes nothing; move each file into place as a whole; remove the others.
    ///
    /// Call it inside a coordinated write of the URL. Then no other program sees a half-written tree, and other devices
    /// get all of it or nothing.
    ///
    /// - Parameter url: The URL of the folder or file.
    /// - Throws: `UbiquitousFileError`.
    public func write(to url: URL) async throws {
        let path = url.systemPath
        // A tree that was read from or written to this path keeps its place.
        let place = origin.map(\.place).flatMap { $0.path == path ? $0 : nil } ?? DocumentPlace(path)
        try await write(to: place)
    }

    func write(to place: DocumentPlace) async throws {
        let root = place.path
        try await mappingFileErrors(isWriting: true) {
            try await FileAccess.waiting { try self.prepare(for: root, root: root) }
            try await FileAccess.run { try self.writeBlocking(to: place, at: root) }
        }
    }

    private func writeBlocking(to place: DocumentPlace, at root: String) throws(UbiquityError) {
        var plan = WritingPlan(place: place, root: root)
        noteMembers("", &plan.wanted)
        do {
            try gather(for: root, member: "", &plan)
        } catch {
            plan.giveUp()
            throw error
        }
        try carryOut(plan)
    }

    /// Returns whether a place holds exactly this tree, as far as names, sizes and times tell.
    ///
    /// - Parameter url: The URL of the folder or file.
    /// - Throws: `UbiquitousFileError`.
    public func matchesContents(of url: URL) async throws -> Bool {
        let path = url.systemPath
        return try await mappingFileErrors(isWriting: false) {
            try await FileAccess.run { try self.matches(path) }
        }
    }

    private func matches(_ path: String) throws(UbiquityError) -> Bool {
        guard let status = try Self.status(of: path), isKnown(at: path, status) else { return false }
        guard let members = fileWrappers else { return true }
        let names = try Self.names(in: path)
        // Compares names as bytes: two strings can be equal although their encodings, and so the files, differ.
        guard Set(members.keys.map { Array($0.utf8) }) == Set(names.map { Array($0.utf8) }) else { return false }
        for (name, member) in members where !(try member.matches("\(path)/\(name)")) { return false }
        return true
    }

    /// Compares stamps regardless of the path: a file stays the same after a move.
    private func isKnown(at path: String, _ status: FileStatus) -> Bool {
        isDirectory ? status.isDirectory : origin?.stamp == FileStamp(status)
    }

    // MARK: Three phases

    /// Reads everything to be written, downloading if needed, and rejects what cannot be written. Nothing has changed
    /// on disk by then.
    private func prepare(for path: String, root: String) throws(UbiquityError) {
        let status = try Self.status(of: path)
        switch content {
        case .file:
            if let status, isKnown(at: path, status) { return }
            _ = try bytes(root: root)
        case .symlink: return
        case .directory(let members):
            if status?.isDirectory == true { _ = try Self.names(in: path) }
            for (name, member) in members {
                guard !name.isEmpty, !name.utf8.contains(UInt8(ascii: "/")), name != ".", name != ".." else {
                    throw UbiquityError(.invalidName, "not a file's name: \(name)", at: path)
                }
                try member.prepare(for: "\(path)/\(name)", root: root)
            }
        }
    }

    private struct WritingPlan {
        let place: DocumentPlace
        let root: String
        /// Temporary files, each with its destination.
        var staged: [Step] = []
        /// Folders that were made where none existed.
        var made: [String] = []
        /// Paths to remove.
        var removed: [String] = []
        /// All paths in the tree.
        var wanted: Set<String> = []
        /// Old tree paths of files that move within the package.
        var renamed: Set<String> = []

        struct Step {
            /// The current path of the file: a temporary file, or a member that only moves.
            var staged: String
            var path: String
            /// The path in the tree.
            var member: String
            var wrapper: FileWrapper
            /// The destination holds an item of another kind. The two are exchanged; the old item is removed later.
            var exchanges: Bool
            /// True if `staged` is the package's own file, which must survive a failure.
            var isRename = false

            func putInPlace() throws(UbiquityError) {
                if exchanges { return try SafeFile.exchange(staged, with: path) }
                guard isRename else { return try SafeFile.publish(staged, at: path) }
                try describing("write", at: path) { () throws(Errno) in try FileSystem.rename(staged, to: path) }
            }
        }

        /// Removes the temporary files. Any that stay have names that are not synced.
        func giveUp() {
            for step in staged where !step.isRename { try? FileSystem.removeTree(step.staged) }
            for folder in made.reversed() { try? FileSystem.removeDirectory(folder) }
        }
    }

    private func noteMembers(_ member: String, _ all: inout Set<String>) {
        all.insert(member)
        for (name, wrapper) in fileWrappers ?? [:] {
            wrapper.noteMembers(member.isEmpty ? name : "\(member)/\(name)", &all)
        }
    }

    /// Returns the file's current path in the package if the tree has it at another path only; otherwise nil.
    private func oldPlace(in plan: WritingPlan) throws(UbiquityError) -> String? {
        guard let origin, origin.place === plan.place, !plan.wanted.contains(origin.member),
            !plan.renamed.contains(origin.member)
        else { return nil }
        let path = origin.path(in: plan.root)
        guard let status = try Self.status(of: path), isKnown(at: path, status) else { return nil }
        return path
    }

    /// - Parameters:
    ///   - path: Where the item is assembled: its destination, or inside a temporary folder.
    ///   - member: Its path in the tree.
    private func gather(for path: String, member: String, _ plan: inout WritingPlan) throws(UbiquityError) {
        let status = try Self.status(of: path)
        let exchanges = status.map { $0.isDirectory != isDirectory } ?? false
        switch content {
        case .file:
            if let status, isKnown(at: path, status) { return noteUnchanged(member, plan) }
            // Never moves a member into a temporary folder: after a kill it would be lost there.
            let isInPlace = path == (member.isEmpty ? plan.root : "\(plan.root)/\(member)")
            if isInPlace, !exchanges, let old = try oldPlace(in: plan) {
                plan.renamed.insert(origin?.member ?? "")
                return plan.staged.append(
                    .init(staged: old, path: path, member: member, wrapper: self, exchanges: false, isRename: true))
            }
            let bytes = try bytes(root: plan.root)
            let staged = try SafeFile.stage(near: path) { file throws(Errno) in try file.write(bytes) }
            plan.staged.append(.init(staged: staged, path: path, member: member, wrapper: self, exchanges: exchanges))
        case .symlink(let text):
            if let status, isKnown(at: path, status) { return noteUnchanged(member, plan) }
            let staged = try SafeFile.stageLink(text, near: path)
            plan.staged.append(.init(staged: staged, path: path, member: member, wrapper: self, exchanges: exchanges))
        case .directory(let members):
            let folder = exchanges ? SafeFile.temporaryName(beside: path) : path
            try Self.gatherFolder(folder, members, isThere: status?.isDirectory == true, &plan)
            for (name, wrapper) in members.sorted(by: { $0.key < $1.key }) {
                let next = member.isEmpty ? name : "\(member)/\(name)"
                try wrapper.gather(for: "\(folder)/\(name)", member: next, &plan)
            }
            // The exchange follows after all members of the folder are in it.
            guard exchanges else { return }
            plan.staged.append(.init(staged: folder, path: path, member: member, wrapper: self, exchanges: true))
        }
    }

    private static func gatherFolder(
        _ folder: String, _ members: [String: FileWrapper], isThere: Bool, _ plan: inout WritingPlan
    ) throws(UbiquityError) {
        if isThere {
            let wanted = Set(members.keys.map { Array($0.utf8) })
            let gone = try names(in: folder).filter { !wanted.contains(Array($0.utf8)) }
            plan.removed += gone.map { "\(folder)/\($0)" }
        } else {
            try describing("make a folder", at: folder) { () throws(Errno) in
                try FileSystem.makeDirectory(folder, mode: 0o777)
            }
            plan.made.append(folder)
        }
    }

    private func noteUnchanged(_ member: String, _ plan: WritingPlan) {
        guard let stamp = origin?.stamp else { return }
        note(Origin(place: plan.place, member: member, stamp: stamp))
    }

    private func carryOut(_ plan: WritingPlan) throws(UbiquityError) {
        var plan = plan
        // Renames run before exchanges, so a member leaves its old folder before that folder is exchanged.
        plan.staged = plan.staged.filter(\.isRename) + plan.staged.filter { !$0.isRename }
        do {
            while let step = plan.staged.first {
                try step.putInPlace()
                plan.staged.removeFirst()
                if step.exchanges { plan.removed.append(step.staged) }
                guard let status = try Self.status(of: step.path) else { continue }
                step.wrapper.note(Origin(place: plan.place, member: step.member, stamp: FileStamp(status)))
            }
            // Removals run last: until here every file is at its old or its new place.
            for path in plan.removed {
                try describing("remove", at: path) { () throws(Errno) in try FileSystem.removeTree(path) }
            }
        } catch {
            // Files already in place stay.
            for step in plan.staged where !step.isRename { try? FileSystem.removeTree(step.staged) }
            throw error
        }
    }

    private static func status(of path: String) throws(UbiquityError) -> FileStatus? {
        do throws(Errno) { return try FileSystem.status(path) } catch {
            if error == .ENOENT || error == .ENOTDIR { return nil }
            throw UbiquityError(error, doing: "examine", at: path)
        }
    }
}

extension SafeFile {
    /// Makes a symlink under a temporary name beside its destination.
    static func stageLink(_ text: String, near path: String) throws(UbiquityError) -> String {
        let staged = temporaryName(beside: path)
        try describing("create a symlink", at: path) { () throws(Errno) in try FileSystem.symlink(text, at: staged) }
        return staged
    }

    /// Exchanges a temporary item with an item of another kind, in one step.
    static func exchange(_ staged: String, with path: String) throws(UbiquityError) {
        try describing("write", at: path) { () throws(Errno) in try FileSystem.rename(staged, to: path, .exchange) }
    }
}
