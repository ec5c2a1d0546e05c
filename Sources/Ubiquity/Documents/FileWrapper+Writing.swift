import FoundationEssentials
import UbiquityCore
import UbiquitySystem

// Writing a tree of wrappers: only what is not there already.
extension FileWrapper {
    /// Makes a place hold this tree. Files that it is known to hold already are not written, those that it holds by
    /// another name are renamed; what is there and not in the tree is removed. All that is new is written aside first,
    /// so a full disk changes nothing; then it is put in place, each file whole; then the rest is removed.
    ///
    /// Do so inside a coordinated write of the place: then no other program meets it half written, and other devices
    /// get all of it or nothing.
    public func write(to url: URL) async throws {
        let path = url.systemPath
        // What was read from there, or written there, goes on standing there.
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

    /// Whether a place holds just this tree, as far as names, sizes and times tell.
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
        // By bytes: text is equal that is written in different ways, and files are not.
        guard Set(members.keys.map { Array($0.utf8) }) == Set(names.map { Array($0.utf8) }) else { return false }
        for (name, member) in members where !(try member.matches("\(path)/\(name)")) { return false }
        return true
    }

    /// Wherever it stands: the file that was read is the same one after a move.
    private func isKnown(at path: String, _ status: FileStatus) -> Bool {
        isDirectory ? status.isDirectory : origin?.stamp == FileStamp(status)
    }

    // MARK: Three phases

    /// Has all that is to be written, downloaded if need be, and refuses what cannot be written: nothing has changed
    /// by then.
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
        /// What is made aside, and where it belongs.
        var staged: [Step] = []
        /// Folders that were made where nothing stood.
        var made: [String] = []
        /// What is to go.
        var removed: [String] = []
        /// All paths in the tree.
        var wanted: Set<String> = []
        /// Files in the package that are given another place in it, by their old paths in the tree.
        var renamed: Set<String> = []

        struct Step {
            /// For a file that only changes its place: where it stands.
            var staged: String
            var path: String
            /// The path in the tree.
            var member: String
            var wrapper: FileWrapper
            /// What stands there is of another kind: they change places, and the old one goes then.
            var exchanges: Bool
            /// Whether what is staged is the package's own file, and not to be removed if something fails.
            var isRename = false

            func putInPlace() throws(UbiquityError) {
                if exchanges { return try SafeFile.exchange(staged, with: path) }
                guard isRename else { return try SafeFile.publish(staged, at: path) }
                try describing("write", at: path) { () throws(Errno) in try FileSystem.rename(staged, to: path) }
            }
        }

        /// What is left aside is of no use; its names are among those that are not synced.
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

    /// Where the file stands in the package now, if it is to stand elsewhere in it and nothing else there.
    private func oldPlace(in plan: WritingPlan) throws(UbiquityError) -> String? {
        guard let origin, origin.place === plan.place, !plan.wanted.contains(origin.member),
            !plan.renamed.contains(origin.member)
        else { return nil }
        let path = origin.path(in: plan.root)
        guard let status = try Self.status(of: path), isKnown(at: path, status) else { return nil }
        return path
    }

    /// - Parameters:
    ///   - path: where it is put together: its place, or in a folder that is made aside.
    ///   - member: its path in the tree.
    private func gather(for path: String, member: String, _ plan: inout WritingPlan) throws(UbiquityError) {
        let status = try Self.status(of: path)
        let exchanges = status.map { $0.isDirectory != isDirectory } ?? false
        switch content {
        case .file:
            if let status, isKnown(at: path, status) { return noteUnchanged(member, plan) }
            // Not into a folder that is made aside: who is killed then would leave it there.
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
            // After all that is put into it.
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
        // Before anything gives way to what is of another kind, so that a file from a folder that does is out of it.
        plan.staged = plan.staged.filter(\.isRename) + plan.staged.filter { !$0.isRename }
        do {
            while let step = plan.staged.first {
                try step.putInPlace()
                plan.staged.removeFirst()
                if step.exchanges { plan.removed.append(step.staged) }
                guard let status = try Self.status(of: step.path) else { continue }
                step.wrapper.note(Origin(place: plan.place, member: step.member, stamp: FileStamp(status)))
            }
            // Last: until here each file stands where it stood, or where it is to stand.
            for path in plan.removed {
                try describing("remove", at: path) { () throws(Errno) in try FileSystem.removeTree(path) }
            }
        } catch {
            // What has been put in place stays.
            for step in plan.staged where !step.isRename { try? FileSystem.removeTree(step.staged) }
            throw error
        }
    }

    private static func status(of path: String) throws(UbiquityError) -> FileStatus? {
        do throws(Errno) { return try FileSystem.status(path) } catch {
            if error == .ENOENT || error == .ENOTDIR { return nil }
            throw UbiquityError(error, doing: "look at", at: path)
        }
    }
}

extension SafeFile {
    /// A symlink beside the place where it belongs.
    static func stageLink(_ text: String, near path: String) throws(UbiquityError) -> String {
        let staged = temporaryName(beside: path)
        try describing("make a symlink", at: path) { () throws(Errno) in try FileSystem.symlink(text, at: staged) }
        return staged
    }

    /// Puts what was made aside in the place of what is of another kind, in one step; that stands aside then.
    static func exchange(_ staged: String, with path: String) throws(UbiquityError) {
        try describing("write", at: path) { () throws(Errno) in try FileSystem.rename(staged, to: path, .exchange) }
    }
}
