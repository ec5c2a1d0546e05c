import UbiquityCore
import UbiquitySystem

/// Compares a folder of a mount with its journal.
struct Audit {
    let journal: Journal
    let root: String
    /// The folder that the journal's worker writes in.
    let folder: String
    let cut: Int?
    private(set) var complaints: [String] = []
    /// The findings, by path.
    private(set) var found: [String: Pattern.Finding] = [:]

    init(journal: Journal, root: String, folder: String, cut: Int?) {
        self.journal = journal
        self.root = root
        self.folder = folder
        self.cut = cut
    }

    /// Checks every file.
    /// - Parameter exactly: true if each file must be in a state that its journal allows now; false if any state that
    ///   it ever had is enough.
    mutating func run(exactly: Bool) throws {
        try list(folder)
        for path in Set(journal.paths).union(found.keys).sorted() {
            exactly ? compare(path) : compareLoosely(path)
        }
        if exactly { compareAtomicOnes() }
    }

    private mutating func list(_ folder: String) throws {
        let path = root + "/" + folder
        guard try FileSystem.exists(path) else { return }
        for entry in try FileSystem.entries(of: path) {
            let inner = folder + "/" + entry.text
            // An interrupted save leaves its temporary file.
            if entry.text.hasSuffix(".new") { continue }
            if try FileSystem.status(path + "/" + entry.text).isDirectory {
                try list(inner)
            } else {
                found[inner] = Pattern.examine(try Self.bytes(path + "/" + entry.text))
            }
        }
    }

    static func bytes(_ path: String) throws -> [UInt8] {
        let file = try FileDescriptor.open(path, .readOnly)
        return try file.read(count: Int(try file.status().size), at: 0)
    }

    private mutating func compare(_ path: String) {
        let allowed = journal.allowed(path, cut: cut)
        if journal.unknown.contains(path), allowed.count == 1 { return }
        if cut != nil, found[path] != nil, wasMovedAway(allowed) { return }
        switch found[path] {
        case nil:
            if !allowed.contains(where: { $0.state == nil }) { complain(path, "is gone", allowed) }
        case .state(let state):
            if !allowed.contains(where: { $0.state == state }), !isBetween(state, Pattern.writers(of: state), allowed) {
                complain(path, "is \(state)", allowed)
            }
        case .mixed(let state, let edits):
            if !isBetween(state, edits, allowed) { complain(path, "is a mixture up to \(state)", allowed) }
        case .empty:
            if !mayBeTorn(allowed) { complain(path, "is empty", allowed) }
        case .torn(let how):
            if !mayBeTorn(allowed) { complain(path, "is torn: \(how)", allowed) }
        }
    }

    /// If a power loss undoes a rename, the old name has the edits that were made under the new name.
    private func wasMovedAway(_ allowed: [Journal.Entry]) -> Bool {
        allowed.dropFirst().contains { entry in
            entry.state == nil && entry.operation.flatMap { journal.operations[$0] }?.isAtomic == true
        }
    }

    /// A new file that was written in place, and not saved aside and renamed, has the bytes written so far.
    private func mayBeTorn(_ allowed: [Journal.Entry]) -> Bool {
        if let cut {
            // A new file that was never synced may have any length, also after a rename.
            return allowed.dropFirst().compactMap(\.state).contains { state in
                journal.edits(of: state.id, cut: cut).survived == nil && !journal.isReplacement(state.id)
            }
        }
        return allowed.dropFirst().contains { entry in
            entry.operation.flatMap { journal.operations[$0] }?.flags.contains("p") ?? false
        }
    }

    /// Edits in place that did not finish, or were not synced, may be present for some blocks only.
    private func isBetween(_ state: FileState, _ edits: [UInt64], _ allowed: [Journal.Entry]) -> Bool {
        let same = allowed.compactMap(\.state).filter { $0.id == state.id && $0.size == state.size }
        if let cut, !same.isEmpty {
            let known = journal.edits(of: state.id, cut: cut)
            let floor = Pattern.writers(of: FileState(id: state.id, edit: known.survived ?? 0, size: state.size))
            return state.edit <= known.begun && zip(edits, floor).allSatisfy { $0 >= $1 }
        }
        guard let first = same.first, let last = same.last, same.count > 1, state.edit <= last.edit else { return false }
        return zip(edits, Pattern.writers(of: first)).allSatisfy { $0 >= $1 }
    }

    private mutating func compareLoosely(_ path: String) {
        switch found[path] {
        case nil, .empty: return
        case .state(let state), .mixed(let state, _):
            if !journal.knows(state, at: path) { complaints.append("\(path) has \(state), which was never there") }
        case .torn(let how):
            let mayBe = journal.entries[path]?.contains { entry in
                entry.operation.flatMap { journal.operations[$0] }?.flags.contains("p") ?? false
            }
            if mayBe != true { complaints.append("\(path) is torn: \(how)") }
        }
    }

    /// After an interrupted rename both names have the old state, or both have the new state.
    private mutating func compareAtomicOnes() {
        guard cut == nil else { return }
        for operation in journal.operations.values where operation.isAtomic && operation.position == nil {
            let isCurrent = operation.changes.allSatisfy { change in
                journal.entries[change.path]?.last.map { !$0.isDone && $0.state == change.state } ?? false
            }
            guard isCurrent else { continue }
            let done = operation.changes.filter { isThere($0.path, $0.state) }.count
            if done != 0 && done != operation.changes.count {
                complaints.append("a rename is incomplete: \(operation.changes)")
            }
        }
    }

    private func isThere(_ path: String, _ state: FileState?) -> Bool {
        switch found[path] {
        case nil: state == nil
        case .state(let here): here == state
        default: false
        }
    }

    private mutating func complain(_ path: String, _ what: String, _ allowed: [Journal.Entry]) {
        let texts = allowed.prefix(6).map { $0.state?.description ?? "absent" }
        complaints.append("\(path) \(what); allowed: \(texts.joined(separator: ", "))")
    }

    /// One line per file. The same bytes give the same line.
    var picture: [String] {
        found.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
    }
}
