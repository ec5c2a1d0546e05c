import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityVFS

@Suite struct DirectoryTests {
    /// Reads a directory in portions, doing something between them.
    private func read(
        _ container: TestContainer, _ handle: UInt64, portion: Int, plus: Bool = false,
        between: (Int) throws -> Void = { _ in }
    ) throws -> [String] {
        var names = [String]()
        var offset: Int64 = 0
        while true {
            var taken = 0
            try container.fs.readDirectory(handle, offset: offset, withAttributes: plus, room: portion) { item in
                guard taken < portion else { return false }
                taken += 1
                offset = item.offset
                names.append(String(decoding: item.name, as: UTF8.self))
                return true
            }
            if taken == 0 { return names }
            try between(names.count)
        }
    }

    @Test func listsEveryEntryOnceInPortions() throws {
        let container = try TestContainer()
        for number in 0..<100 { try container.create("f\(number)") }
        let opened = try container.fs.openDirectory(1)
        let names = try read(container, opened.handle, portion: 7)
        #expect(names.prefix(2) == [".", ".."])
        #expect(Set(names.dropFirst(2)) == Set((0..<100).map { "f\($0)" }))
        #expect(names.count == 102)
        // The same handle, from the beginning again, in portions of another size.
        #expect(try read(container, opened.handle, portion: 50) == names)
        container.fs.releaseDirectory(opened.handle)
    }

    @Test func changesWhileReadingNeitherSkipNorRepeatWhatStays() throws {
        let container = try TestContainer()
        for number in 0..<200 { try container.create("f\(number)") }
        let opened = try container.fs.openDirectory(1)
        var removed = Set<String>()
        let names = try read(container, opened.handle, portion: 5) { count in
            // Removes an entry that was listed and one that may not have been, and makes new ones on both sides.
            for name in ["f\(count % 200)", "f\((count * 7) % 200)"] where removed.insert(name).inserted {
                try container.unlink(name)
            }
            try container.create("a\(count)")
            try container.create("z\(count)")
        }
        let listed = names.filter { $0.hasPrefix("f") }
        #expect(listed.count == Set(listed).count)
        let stayed = Set((0..<200).map { "f\($0)" }).subtracting(removed)
        #expect(stayed.subtracting(listed).isEmpty)
        container.fs.releaseDirectory(opened.handle)
    }

    @Test func anOffsetMeansTheSameInAnotherHandle() throws {
        let container = try TestContainer()
        for number in 10..<40 { try container.create("f\(number)") }
        let first = try container.fs.openDirectory(1)
        let second = try container.fs.openDirectory(1)
        var offset: Int64 = 0
        var count = 0
        try container.fs.readDirectory(first.handle, offset: 0, withAttributes: false, room: 32) { item in
            guard count < 12 else { return false }
            count += 1
            offset = item.offset
            return true
        }
        // The entry at which the first stopped leaves: its place must not be lost.
        try container.unlink("f19")
        var rest = [String]()
        try container.fs.readDirectory(second.handle, offset: offset, withAttributes: false, room: 32) { item in
            rest.append(String(decoding: item.name, as: UTF8.self))
            return true
        }
        #expect(rest == (20..<40).map { "f\($0)" })
        container.fs.releaseDirectory(first.handle)
        container.fs.releaseDirectory(second.handle)
    }

    @Test func attributesComeAlongAndCountAsLookups() throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        let opened = try container.fs.openDirectory(1)
        var found: NodeAttributes?
        try container.fs.readDirectory(opened.handle, offset: 2, withAttributes: true, room: 8) { item in
            found = item.attributes
            return true
        }
        #expect(found?.ino == ino)
        #expect(found?.size == 5)
        // The kernel knows it now, so that it is told of its removal.
        let key = try #require(try container.index.row(ino: ino)?.key)
        _ = container.kernel.take()
        try container.cloud.remove(key)
        #expect(container.kernel.take().contains(.entry(1, "a")))
        container.fs.releaseDirectory(opened.handle)
    }

    @Test func aListingIsKeptOnlyIfNothingChanged() throws {
        let container = try TestContainer()
        func open() throws -> Bool {
            let opened = try container.fs.openDirectory(1)
            container.fs.releaseDirectory(opened.handle)
            return opened.keepsCache
        }
        #expect(try !open())
        #expect(try open())
        try container.create("a")
        #expect(try !open())
        #expect(try open())
        try container.cloud.add("b", [])
        #expect(try !open())
    }

    @Test func aRemovedDirectoryIsEmpty() throws {
        let container = try TestContainer()
        let ino = try container.makeDirectory("d")
        _ = try container.lookup("d")
        let opened = try container.fs.openDirectory(ino)
        try container.fs.removeDirectory(parent: 1, name: Array("d".utf8))
        #expect(try read(container, opened.handle, portion: 10) == [".", ".."])
        #expect(try container.fs.attributes(of: ino).links == 0)
        #expect(errno { try container.create("x", in: ino) } == .ENOENT)
        container.fs.releaseDirectory(opened.handle)
    }
}
