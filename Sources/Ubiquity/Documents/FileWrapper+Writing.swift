import FoundationEssentials
import UbiquityCore
import UbiquitySystem

// Writing a tree of wrappers: only what is not there already.
extension FileWrapper {
    /// Makes a place hold this tree. Files that it is known to hold already are not written; what is there and not in
    /// the tree is removed. All that is new is written aside first, so a full disk changes nothing; then it is put in
    /// place, each file whole.
    ///
    /// Do so inside a coordinated write of the place: then no other program meets it half written, and other devices
    /// get all of it or nothing.
    public func write(to url: URL) async throws {
        let path = url.systemPath
        try await mappingFileErrors(isWriting: true) { try await FileAccess.run { try self.write(toPath: path) } }
    }

    /// Blocks.
    func write(toPath path: String) throws(UbiquityError) {
        var plan = WritingPlan()
        do {
            try gather(for: path, &plan)
        } catch {
            for step in plan.staged { try? FileSystem.unlink(step.staged) }
            for folder in plan.made.reversed() { try? FileSystem.removeDirectory(folder) }
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
        guard Set(members.keys) == Set(names) else { return false }
        for (name, member) in members where !(try member.matches("\(path)/\(name)")) { return false }
        return true
    }

    private func isKnown(at path: String, _ status: FileStatus) -> Bool {
        if isDirectory { return status.isDirectory }
        return origin == Origin(path: path, stamp: FileStamp(status))
    }

    // MARK: Two phases

    private struct WritingPlan {
        /// Files and links that are written aside, and where they belong.
        var staged: [(staged: String, path: String, wrapper: FileWrapper)] = []
        /// Folders that were made.
        var made: [String] = []
        /// What is to go.
        var removed: [String] = []
    }

    private func gather(for path: String, _ plan: inout WritingPlan) throws(UbiquityError) {
        let status = try Self.status(of: path)
        if let status, isKnown(at: path, status), !isDirectory { return }
        switch content {
        case .file:
            let bytes = try bytes()
            try Self.remove(path, status, unless: .file, &plan)
            let staged = try SafeFile.stage(near: path) { file throws(Errno) in try file.write(bytes) }
            plan.staged.append((staged, path, self))
        case .symlink(let text):
            try Self.remove(path, status, unless: .symlink, &plan)
            plan.staged.append((try SafeFile.stageLink(text, near: path), path, self))
        case .directory(let members):
            if status?.isDirectory != true {
                try Self.remove(path, status, unless: nil, &plan)
                try describing("make a folder", at: path) { () throws(Errno) in
                    if status != nil { try FileSystem.unlink(path) }
                    try FileSystem.makeDirectory(path, mode: 0o777)
                }
                plan.made.append(path)
            } else {
                let gone = try Self.names(in: path).filter { members[$0] == nil }
                plan.removed += gone.map { "\(path)/\($0)" }
            }
            for (name, member) in members.sorted(by: { $0.key < $1.key }) {
                guard !name.isEmpty, !name.contains("/"), name != ".", name != ".." else {
                    throw UbiquityError(.invalidName, "not a file's name: \(name)", at: path)
                }
                try member.gather(for: "\(path)/\(name)", &plan)
            }
        }
    }

    /// A folder gives way to a file of its name; a file is replaced by the rename.
    private static func remove(
        _ path: String, _ status: FileStatus?, unless kind: FileKind?, _ plan: inout WritingPlan
    ) throws(UbiquityError) {
        guard let status, status.isDirectory, kind != nil else { return }
        plan.removed.append(path)
    }

    private func carryOut(_ plan: WritingPlan) throws(UbiquityError) {
        for path in plan.removed {
            try describing("remove", at: path) { () throws(Errno) in try FileSystem.removeTree(path) }
        }
        for step in plan.staged {
            try SafeFile.publish(step.staged, at: step.path)
            if let status = try Self.status(of: step.path) {
                step.wrapper.note(Origin(path: step.path, stamp: FileStamp(status)))
            }
        }
    }

    private static func status(of path: String) throws(UbiquityError) -> FileStatus? {
        do throws(Errno) { return try FileSystem.status(path) } catch {
            if error == .ENOENT { return nil }
            throw UbiquityError(error, doing: "look at", at: path)
        }
    }

    private static func names(in folder: String) throws(UbiquityError) -> [String] {
        try describing("list", at: folder) { () throws(Errno) in
            try FileSystem.entries(of: folder).map { String(decoding: $0.name, as: UTF8.self) }
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
}
