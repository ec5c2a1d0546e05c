import Testing
import UbiquityCore
import UbiquityIndex
import UbiquityTestSupport

/// The simplest possible tree: the index must agree with its results and its refusals.
private final class Model {
    final class Node {
        let isDirectory: Bool
        /// The inode that programs see here.
        var ino: UInt64
        var children: [String: Node] = [:]

        init(isDirectory: Bool, ino: UInt64) {
            self.isDirectory = isDirectory
            self.ino = ino
        }

        func contains(_ node: Node) -> Bool { self === node || children.values.contains { $0.contains(node) } }

        func listing(_ path: String = "") -> [String: UInt64] {
            children.reduce(into: [:]) { result, child in
                result[path + child.key] = child.value.ino
                result.merge(child.value.listing(path + child.key + "/")) { first, _ in first }
            }
        }

        var folders: [Node] { [self] + children.values.filter(\.isDirectory).flatMap(\.folders) }
    }

    let root = Node(isDirectory: true, ino: 1)

    func create(_ folder: Node, _ name: String, isDirectory: Bool, ino: UInt64) -> UbiquityError.Code? {
        guard folder.children[name] == nil else { return .alreadyExists }
        folder.children[name] = Node(isDirectory: isDirectory, ino: ino)
        return nil
    }

    func remove(_ folder: Node, _ name: String, isDirectory: Bool) -> UbiquityError.Code? {
        guard let node = folder.children[name] else { return .notFound }
        guard node.isDirectory == isDirectory else { return isDirectory ? .notDirectory : .isDirectory }
        guard node.children.isEmpty else { return .directoryNotEmpty }
        folder.children[name] = nil
        return nil
    }

    func rename(
        _ from: Node, _ old: String, _ into: Node, _ new: String, _ mode: RenameMode
    ) -> UbiquityError.Code? {
        guard let source = from.children[old] else { return .notFound }
        let target = into.children[new]
        if source.contains(into), source.isDirectory { return .invalid }
        if mode == .exclusive, target != nil { return .alreadyExists }
        if mode == .exchanging {
            guard let target else { return .notFound }
            if target !== source, target.contains(from) { return .invalid }
            from.children[old] = target
            into.children[new] = source
            return nil
        }
        if target === source { return nil }
        if let target {
            guard target.isDirectory == source.isDirectory else {
                return target.isDirectory ? .isDirectory : .notDirectory
            }
            guard target.children.isEmpty else { return .directoryNotEmpty }
        }
        from.children[old] = nil
        into.children[new] = source
        return nil
    }
}

@Suite(.timeLimit(.minutes(2))) struct ModelTests {
    @Test(arguments: 1...8 as ClosedRange<UInt64>)
    func indexAgreesWithTheModel(_ seed: UInt64) throws {
        let fixture = try Fixture(seed: seed, inMemory: seed > 2)
        let random = SeededRandom(seed &* 7919)
        let model = Model()
        for number in 0..<600 {
            fixture.time.advance()
            try step(fixture.index, model, random)
            if number % 100 == 0 { try compare(fixture, model, seed) }
        }
        try compare(fixture, model, seed)
    }

    private func compare(_ fixture: Fixture, _ model: Model, _ seed: UInt64) throws {
        fixture.check()
        var stored = [String: UInt64]()
        func walk(_ folder: ItemKey, _ path: String) throws {
            for row in try fixture.index.read({ try $0.children(of: folder, after: nil, limit: .max) }) {
                let name = path + (row.entry?.name.description ?? "")
                stored[name] = row.ino
                #expect(try fixture.index.row(ino: row.ino) == row)
                if row.kind == .directory { try walk(row.key, name + "/") }
            }
        }
        try walk(.root, "")
        #expect(stored == model.root.listing(), "seed \(seed)")
    }

    private func step(_ index: ItemIndex, _ model: Model, _ random: SeededRandom) throws {
        let folder = random.pick(model.root.folders), other = random.pick(model.root.folders)
        let name = "n\(random.below(5))", newName = "n\(random.below(5))"
        let itemName = try ItemName(name), newItemName = try ItemName(newName)
        let isDirectory = random.below(2) == 0
        let mode = random.pick([RenameMode.replacing, .replacing, .exclusive, .exchanging])
        let what = random.below(10)
        var made: UInt64 = 0
        var refusal: UbiquityError.Code?
        do {
            switch what {
            case 0...3:
                let content = isDirectory ? nil : ContentID(try index.newContentNumber())
                let new = NewItem(
                    kind: isDirectory ? .directory : .file, mode: 0o755, uid: 0, gid: 0, content: content)
                made = try index.create(in: folder.ino, named: itemName, new).ino
            case 4: _ = try index.remove(from: folder.ino, named: itemName, directory: isDirectory)
            default: _ = try index.rename(from: folder.ino, itemName, to: other.ino, newItemName, mode)
            }
        } catch let error as UbiquityError {
            refusal = error.code
        }
        let expected =
            switch what {
            case 0...3: model.create(folder, name, isDirectory: isDirectory, ino: made)
            case 4: model.remove(folder, name, isDirectory: isDirectory)
            default: model.rename(folder, name, other, newName, mode)
            }
        #expect(refusal == expected, "operation \(what) \(name) \(newName) \(mode)")
    }
}
