import UbiquityCore
import UbiquityIndex
import UbiquitySync
import UbiquityTestSupport

/// A device's index. A hostile cloud sends it arbitrary records while a user works.
struct FuzzedDevice {
    /// Limit for attempts to place records in one transaction: many times the need of so few records.
    private static let stepLimit = 5000
    /// One execution in so many is checked after each step, the others at their ends.
    private static let examined = 8

    private final class Drawn: RandomSource {
        private let values: [UInt64]
        private let next_ = Counter()
        init(_ random: inout FuzzRandom) { values = (0..<64).map { _ in random.next() } }
        func next() -> UInt64 {
            let number = next_.next()
            return values[number % values.count] &+ UInt64(number) &* 0x9E37_79B9_7F4A_7C15
        }
    }

    private let index: ItemIndex
    private let time = ManualTime()
    private let isExamined: Bool

    init(_ random: inout FuzzRandom) throws {
        isExamined = random.oneIn(Self.examined)
        index = try ItemIndex(path: nil, timekeeper: time, random: Drawn(&random))
    }

    private func settler(_ transaction: IndexTransaction) -> Settler {
        Settler(transaction, owner: (0, 0), now: time.now(), stepLimit: Self.stepLimit)
    }

    /// Applies a page of the feed.
    func receive(_ items: [RemoteItem], asPage: Bool, isLast: Bool) throws {
        try index.write(.remote) { transaction in
            var settler = settler(transaction)
            if asPage {
                try settler.receive(page: items, index, isLast: isLast)
            } else {
                for item in items { try settler.receive(item) }
            }
            try settler.settleAll(limit: 1000)
        }
        if isExamined { try check() }
    }

    /// Places all records that can be placed, as at the end of a page.
    func settle() throws {
        try index.write(.remote) { transaction in
            var settler = settler(transaction)
            let held = try transaction.heldPackages(index).values.flatMap { $0 }
            try settler.release(held)
            try settler.settleAll(limit: 1000)
            try settler.removeLingering(limit: 100)
        }
        if isExamined { try check() }
    }

    func check() throws { try index.read { try $0.checkInvariants() } }

    /// Every live item, from the top folder down. Throws if the tree has a cycle.
    func rows() throws -> [ItemRow] {
        var found = [ItemRow](), waiting = [ItemKey.root]
        while let key = waiting.popLast() {
            let children = try index.read { try $0.children(of: key, after: nil, limit: 1000) }
            found += children
            waiting += children.filter { $0.kind == .directory }.map(\.key)
            try require(found.count < 10_000, "the tree has no end")
        }
        return found
    }

    /// One operation of a program.
    func act(_ random: inout FuzzRandom) throws {
        let rows = try rows(), folders = rows.filter { $0.kind == .directory }
        let folder: UInt64 = random.oneIn(2) || folders.isEmpty ? 1 : random.pick(folders).ino
        do {
            switch random.below(5) {
            case 0:
                let kind = random.pick([ItemKind.file, .directory, .symlink])
                let content = kind == .file ? ContentID(try index.newContentNumber()) : nil
                _ = try index.create(
                    in: folder, named: random.name(),
                    NewItem(
                        kind: kind, mode: 0o644, uid: 0, gid: 0, linkTarget: kind == .symlink ? [65] : [],
                        content: content))
            case 1:
                guard !rows.isEmpty, let entry = random.pick(rows).entry,
                    let parent = try index.row(key: entry.parent)
                else { return }
                let mode = random.pick([RenameMode.replacing, .exclusive, .exchanging])
                _ = try index.rename(from: parent.ino, entry.name, to: folder, random.name(), mode)
            case 2:
                guard !rows.isEmpty else { return }
                let row = random.pick(rows)
                guard let entry = row.entry, let parent = try index.row(key: entry.parent) else { return }
                _ = try index.remove(from: parent.ino, named: entry.name, directory: row.kind == .directory)
            case 3:
                guard !rows.isEmpty else { return }
                _ = try index.setAttributes(ino: random.pick(rows).ino, AttributeChange(mode: random.mode()))
            default:
                let files = rows.filter { $0.kind == .file && $0.contentState == .complete }
                guard !files.isEmpty else { return }
                _ = try index.noteWriting(
                    ino: random.pick(files).ino, changed: true, size: 5, modifiedAt: time.now(),
                    stillOpen: false)
            }
        } catch is UbiquityError {
            // The operation fails for the program.
        }
        if isExamined { try check() }
    }
}
