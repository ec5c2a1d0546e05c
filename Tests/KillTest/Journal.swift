import UbiquityCore
import UbiquitySystem

/// The intentions and acknowledged operations of a worker: a text file outside of the mount.
///
///     T number flags path=state …    intention: these paths get these states ("-": absent)
///     D number position              done, when the disk had so many records
///     O path=state …                 found after a restart; replaces the history of the path
///     X path …                       found in no valid state after a power loss
///     N number                       the last number in use; ids of saves come from the numbers
///
/// Flags: `r` saved aside in the place of an older one; `p` written in place; `f` fsynced, names too, when done; `a`
/// all of the paths change or none.
struct Journal {
    struct Operation {
        var flags: String
        var changes: [(path: String, state: FileState?)]
        /// Position in the disk's records when the operation was done; nil if it was not done.
        var position: Int?

        var isSynced: Bool { flags.contains("f") }
        var isAtomic: Bool { flags.contains("a") }
    }

    /// One intended state of a path.
    struct Entry {
        var state: FileState?
        var operation: Int?
        var isDone: Bool
        /// The first position whose state survives a power loss; nil if nothing was synced.
        var syncedAt: Int?
    }

    private(set) var operations: [Int: Operation] = [:]
    private(set) var entries: [String: [Entry]] = [:]
    private(set) var count = 0
    /// Paths with unknown content: unsynced data may be anything after a power loss.
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
                // An absent path equals a path that never existed: later audits need not check it unless it appears
                // again.
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

    /// The states that a path may have now: the last state that must have survived, and every state begun after it.
    /// - Parameter cut: the position of the power loss; nil if only processes were killed, so completed operations
    ///   count.
    func allowed(_ path: String, cut: Int?) -> [Entry] {
        let all = [Entry(state: nil, isDone: true, syncedAt: 0)] + (entries[path] ?? [])
        let last = all.lastIndex { entry in
            guard let cut else { return entry.isDone }
            return entry.syncedAt.map { $0 <= cut } ?? false
        }
        return Array(all[(last ?? 0)...])
    }

    /// The edits of a save that were begun, and those that must have survived a power loss at `cut`. Nil if the save
    /// itself need not have survived.
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

    /// Whether the save was written aside and renamed over an older file: then a name has one of both, and whole.
    func isReplacement(_ id: UInt64) -> Bool {
        operations.values.contains { operation in
            operation.flags.contains("r") && operation.changes.contains { $0.state?.id == id }
        }
    }

    /// Whether any save with that id was ever begun at this path.
    func knows(_ state: FileState, at path: String) -> Bool {
        entries[path]?.contains { $0.state?.id == state.id } ?? false
    }
}
