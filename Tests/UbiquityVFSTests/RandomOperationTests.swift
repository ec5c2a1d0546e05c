import Testing
import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

/// Random operations against the simplest possible model: paths and texts.
@Suite struct RandomOperationTests {
    /// A small generator with a seed, so that a failure can be repeated.
    struct Dice: RandomNumberGenerator {
        var state: UInt64
        mutating func next() -> UInt64 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return state ^ (state >> 29)
        }
    }

    /// The expected tree: a folder's path (ends in "/") or a file's, and its text.
    struct Model {
        var files: [String: String] = [:]
        var folders: Set<String> = ["/"]

        func exists(_ path: String) -> Bool { files[path] != nil || folders.contains(path + "/") }
        func isEmpty(_ folder: String) -> Bool {
            !files.keys.contains { $0.hasPrefix(folder) } && !folders.contains { $0 != folder && $0.hasPrefix(folder) }
        }
    }

    final class Player {
        let container: TestContainer
        var model = Model()
        var dice: Dice

        init(seed: UInt64, delaysCloses: Bool) throws {
            container = try TestContainer(delaysCloses: delaysCloses)
            dice = Dice(state: seed)
        }

        func ino(_ path: String) throws -> UInt64 {
            var ino: UInt64 = 1
            for part in path.split(separator: "/") {
                guard let found = try container.lookup(String(part), in: ino) else { throw Errno.ENOENT }
                container.fs.forget(found.ino, 1)
                ino = found.ino
            }
            return ino
        }

        func place() -> (folder: String, name: String) {
            (model.folders.sorted().randomElement(using: &dice) ?? "/", "n\(Int.random(in: 0..<5, using: &dice))")
        }

        func step() async throws {
            let (folder, name) = place()
            let path = folder + name
            switch Int.random(in: 0..<10, using: &dice) {
            case 0...2: try await write(path, folder, name)
            case 3, 4: makeDirectory(path, folder, name)
            case 5: unlink(path, folder, name)
            case 6: removeDirectory(path, folder, name)
            case 7: try await truncate(path)
            default: rename(path, folder, name)
            }
        }

        func write(_ path: String, _ folder: String, _ name: String) async throws {
            let text = String(repeating: "t", count: Int.random(in: 0..<30, using: &dice))
            let parent = try ino(folder)
            if model.folders.contains(path + "/") {
                #expect(errno { try container.create(name, in: parent, text) } != nil)
            } else if model.files[path] != nil {
                #expect(errno { try container.create(name, in: parent, text) } == .ESTALE)
                let known = try #require(try container.lookup(name, in: parent))
                let handle = try await container.open(known.ino, [.writeOnly, .truncate])
                try container.write(text, to: handle)
                container.fs.release(handle)
                container.fs.forget(known.ino, 1)
                model.files[path] = text
            } else {
                let made = try container.fs.create(
                    parent: parent, name: Array(name.utf8), mode: 0o644, flags: [.writeOnly, .create, .truncate],
                    caller: container.caller).immediate
                try container.write(text, to: made.opened.handle)
                container.fs.release(made.opened.handle)
                container.fs.forget(made.attributes.ino, 1)
                model.files[path] = text
            }
        }

        func makeDirectory(_ path: String, _ folder: String, _ name: String) {
            let failure = errno {
                let made = try container.makeDirectory(name, in: ino(folder))
                container.fs.forget(made, 1)
            }
            #expect((failure == nil) == !model.exists(path))
            if failure == nil { model.folders.insert(path + "/") }
        }

        func unlink(_ path: String, _ folder: String, _ name: String) {
            let failure = errno { try container.unlink(name, in: ino(folder)) }
            #expect((failure == nil) == (model.files[path] != nil))
            model.files[path] = nil
        }

        func removeDirectory(_ path: String, _ folder: String, _ name: String) {
            let failure = errno { try container.fs.removeDirectory(parent: ino(folder), name: Array(name.utf8)).immediate }
            let may = model.folders.contains(path + "/") && model.isEmpty(path + "/")
            #expect((failure == nil) == may)
            if may { model.folders.remove(path + "/") }
        }

        func truncate(_ path: String) async throws {
            guard let text = model.files[path] else { return }
            let size = Int.random(in: 0..<40, using: &dice)
            _ = try await container.set(ino(path), AttributeChanges(size: Int64(size)))
            model.files[path] = size <= text.count
                ? String(text.prefix(size)) : text + String(repeating: "\0", count: size - text.count)
        }

        func rename(_ path: String, _ folder: String, _ name: String) {
            let (newFolder, newName) = place()
            let newPath = newFolder + newName
            let failure = errno {
                try container.rename(name, in: ino(folder), to: newName, inFolder: ino(newFolder))
            }
            #expect((failure == nil) == mayRename(path, newPath, newFolder), "\(path) to \(newPath)")
            if failure == nil, path != newPath { move(path, newPath) }
        }

        private func mayRename(_ path: String, _ newPath: String, _ newFolder: String) -> Bool {
            if model.files[path] != nil { return !model.folders.contains(newPath + "/") }
            guard model.folders.contains(path + "/"), !newFolder.hasPrefix(path + "/") else { return false }
            if path == newPath { return true }
            return model.files[newPath] == nil
                && (!model.folders.contains(newPath + "/") || model.isEmpty(newPath + "/"))
        }

        private func move(_ path: String, _ newPath: String) {
            if let text = model.files.removeValue(forKey: path) { return model.files[newPath] = text }
            let files = model.files, folders = model.folders
            for (old, text) in files where old.hasPrefix(path + "/") {
                model.files[old] = nil
                model.files[newPath + old.dropFirst(path.count)] = text
            }
            for old in folders where old.hasPrefix(path + "/") {
                model.folders.remove(old)
                model.folders.insert(newPath + old.dropFirst(path.count))
            }
        }

        /// Compares the whole tree.
        func check() async throws {
            for folder in model.folders {
                let expected = (Array(model.files.keys) + model.folders.map { String($0.dropLast()) }).filter {
                    $0.hasPrefix(folder) && !$0.dropFirst(folder.count).contains("/") && $0.count > folder.count
                }
                let found = try container.names(in: ino(folder))
                #expect(Set(found) == Set(expected.map { String($0.dropFirst(folder.count)) }), "in \(folder)")
                #expect(found == found.sorted())
            }
            for (path, text) in model.files {
                #expect(try await container.content(of: ino(path)) == text, "of \(path)")
            }
            #expect(container.raw.violation(whileIdle: true) == nil)
            #expect(container.raw.openHandleCount == 0)
            // No backing file without an item, and none missing.
            try container.contents.removeRetired {}
            #expect(try container.contents.all().sorted() == container.index.read { try $0.contentsInUse() }.ids)
        }
    }

    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64], [false, true])
    func behavesLikeTheModel(_ seed: UInt64, delaysCloses: Bool) async throws {
        let player = try Player(seed: seed, delaysCloses: delaysCloses)
        for round in 1...300 {
            try await player.step()
            if round % 60 == 0 { try await player.check() }
        }
    }
}
