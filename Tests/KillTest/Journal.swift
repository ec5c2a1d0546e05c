import UbiquityCore
import UbiquitySystem

/// What a worker was about to do, and what it was told is done: a text file outside of the mount.
///
///     T number flags path=state …    about to make these paths be in these states ("-": absent)
///     D number position              done, when the disk had so many records
///     O path=state …                 found to be so after a restart: from here on it counts
///     X path …                       found to be no state, after a loss of power
///     N number                       the last number that was used; ids of saves come from the numbers
///
/// Flags: `r` saved aside in the place of an older one; `p` written in place; `f` fsynced, names too, when done; `a` all
/// of the paths change or none.
struct Journal {
    struct Operation {
        var flags: String
        var changes: [(path: String, state: FileState?)]
        /// Records of the disk when it was done; nil if it was not.
        var position: Int?

        var isSynced: Bool { flags.contains("f") }
        var isAtomic: Bool { flags.contains("a") }
    }

    /// One state that a path was to have.
    struct Entry {
        var state: FileState?
        var operation: Int?
        var isDone: Bool
        /// Since when it survives a power loss; nil if nothing was synced.
        var syncedAt: Int?
    }

    private(set) var operations: [Int: Operation] = [:]
    private(set) var entries: [String: [Entry]] = [:]
    private(set) var count = 0
    /// Paths of which nothing is known: what was never synced may be anything after a loss of power.
    private(set) var unknown: Set<String> = []

    init(path: String) throws {
        let bytes = try SmallFile.read(path, limit: 1 << 30) ?? []
        for line in bytes.split(separator: UInt8(ascii: "\n")) { read(String(decoding: line, as: UTF8.self)) }
    }

    private mutating func read(_ line: String) {
        let words = line.split(separator: " ").map(String.init)
        switch words.first {
        case "T":
            guard let number = Int(words[1]) else { return }
            count = max(count, number)
            let operation = Operation(flags: words[2], changes: words.dropFirst(3).compactMap(Self.change))
            operations[number] = operation
            for (path, state) in operation.changes {
                entries[path, default: []].append(Entry(state: state, operation: number, isDone: false))
            }
        case "D":
            guard let number = Int(words[1]), let position = Int(words[2]) else { return }
            operations[number]?.position = position
            for (path, _) in operations[number]?.changes ?? [] {
                for index in (entries[path] ?? []).indices where entries[path]?[index].operation == number {
                    entries[path]?[index].isDone = true
                    if operations[number]?.isSynced == true { entries[path]?[index].syncedAt = position }
                }
            }
        case "O":
            for (path, state) in words.dropFirst().compactMap(Self.change) {
                // What is absent is as what never was: a path that is not spoken of again need not be looked at again.
                entries[path] = state.map { [Entry(state: $0, operation: nil, isDone: true, syncedAt: 0)] }
            }
            let needed = Set(entries.values.joined().compactMap(\.operation))
            operations = operations.filter { needed.contains($0.key) }
        case "X": unknown.formUnion(words.dropFirst())
        case "N": count = max(count, words.dropFirst().first.flatMap { Int($0) } ?? 0)
        default: return
        }
    }

    private static func change(_ text: String) -> (path: String, state: FileState?)? {
        guard let equals = text.lastIndex(of: "=") else { return nil }
        return (String(text[..<equals]), FileState(text[text.index(after: equals)...]))
    }

    var paths: [String] { entries.keys.sorted() }

    /// What may stand at a path now: the last state that must have survived, and all that were begun after it.
    /// - Parameter cut: the position at which the power was lost; nil: processes were killed, and what is done is done.
    func allowed(_ path: String, cut: Int?) -> [Entry] {
        let all = [Entry(state: nil, isDone: true, syncedAt: 0)] + (entries[path] ?? [])
        let last = all.lastIndex { entry in
            guard let cut else { return entry.isDone }
            return entry.syncedAt.map { $0 <= cut } ?? false
        }
        return Array(all[(last ?? 0)...])
    }

    /// Edits of a save that were begun, and those that must have survived a loss of power at `cut`; nil if not even the
    /// save itself must have.
    func edits(of id: UInt64, cut: Int) -> (begun: UInt64, survived: UInt64?) {
        var begun: UInt64 = 0, survived: UInt64?
        for operation in operations.values {
            for state in operation.changes.compactMap(\.state) where state.id == id {
                begun = max(begun, state.edit)
                let isSynced = operation.isSynced && operation.position.map { $0 <= cut } ?? false
                if isSynced { survived = max(survived ?? 0, state.edit) }
            }
        }
        for entries in entries.values {
            for entry in entries where entry.operation == nil && entry.state?.id == id {
                survived = max(survived ?? 0, entry.state?.edit ?? 0)
                begun = max(begun, entry.state?.edit ?? 0)
            }
        }
        return (begun, survived)
    }

    /// Whether a save was put aside, in the place of an older one: then a name has the one or the other, and whole.
    func isReplacement(_ id: UInt64) -> Bool {
        operations.values.contains { operation in
            operation.flags.contains("r") && operation.changes.contains { $0.state?.id == id }
        }
    }

    /// Whether any save of that id was ever begun at this path.
    func knows(_ state: FileState, at path: String) -> Bool {
        entries[path]?.contains { $0.state?.id == state.id } ?? false
    }
}
