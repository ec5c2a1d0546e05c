import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
@testable import UbiquityVFS

@Suite struct DirectoryTests {
    /// Reads a directory in portions, with an action between them.
    private func read(
        _ container: TestContainer, _ ino: UInt64 = TestContainer.root, portion: Int, plus: Bool = false,
        between: (Int) throws -> Void = { _ in }
    ) throws -> [String] {
        var names = [String]()
        var offset: Int64 = 0
        while true {
            var taken = 0
            try container.fs.readDirectory(ino, offset: offset, withAttributes: plus, room: portion) { item in
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
        let names = try read(container, portion: 7)
        #expect(names.prefix(2) == [".", ".."])
        #expect(Set(names.dropFirst(2)) == Set((0..<100).map { "f\($0)" }))
        #expect(names.count == 102)
        // From the beginning again, in portions of another size.
        #expect(try read(container, portion: 50) == names)
    }

    @Test func changesWhileReadingNeitherSkipNorRepeatWhatStays() throws {
        let container = try TestContainer()
        for number in 0..<200 { try container.create("f\(number)") }
        var removed = Set<String>()
        let names = try read(container, portion: 5) { count in
            // Removes a listed entry and one that may be unlisted, and makes new ones on both sides.
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
    }

    @Test func offsetMeansTheSameForAllReaders() throws {
        let container = try TestContainer()
        for number in 10..<40 { try container.create("f\(number)") }
        var offset: Int64 = 0
        var count = 0
        try container.fs.readDirectory(1, offset: 0, withAttributes: false, room: 32) { item in
            guard count < 12 else { return false }
            count += 1
            offset = item.offset
            return true
        }
        // The entry at the end of the first portion is removed: its position must not be lost.
        try container.unlink("f19")
        var rest = [String]()
        try container.fs.readDirectory(1, offset: offset, withAttributes: false, room: 32) { item in
            rest.append(String(decoding: item.name, as: UTF8.self))
            return true
        }
        #expect(rest == (20..<40).map { "f\($0)" })
    }

    @Test func attributesComeAlongAndCountAsLookups() throws {
        let container = try TestContainer()
        let ino = try container.create("a", "hello")
        var found: NodeAttributes?
        try container.fs.readDirectory(1, offset: 2, withAttributes: true, room: 8) { item in
            found = item.attributes
            return true
        }
        #expect(found?.ino == ino)
        #expect(found?.size == 5)
        // The kernel knows it now, so its removal is announced.
        let key = try #require(try container.index.row(ino: ino)?.key)
        _ = container.kernel.take()
        try container.cloud.remove(key)
        #expect(container.kernel.take().contains(.entry(1, "a")))
    }

    /// The kernel drops its cached listing after a change, unless the change was its own.
    @Test func remoteChangeDropsACachedListing() throws {
        let container = try TestContainer()
        try container.create("a")
        try container.rename("a", to: "b")
        #expect(!container.kernel.take().contains(.listing(1)))
        let key = try container.cloud.add("c", []).key
        #expect(container.kernel.take().contains(.listing(1)))
        try container.cloud.remove(key)
        #expect(container.kernel.take().contains(.listing(1)))
    }

    /// A program that lists a part, removes or renames those entries, and continues.
    @Test func departedEntryKeepsItsPositionInTheListing() throws {
        let container = try TestContainer()
        for number in 10..<60 { try container.create("f\(number)") }
        let names = try read(container, portion: 5) { count in
            // "." and "..", and f10 to f27.
            guard count == 20 else { return }
            for number in 10..<28 where number % 2 == 0 { try container.unlink("f\(number)") }
            for number in 10..<28 where number % 2 == 1 { try container.rename("f\(number)", to: "a\(number)") }
        }
        #expect(names.dropFirst(2) == (10..<60).map { "f\($0)" }[...])
        // Renamed back and forth: it is listed at its position.
        try container.rename("a27", to: "z")
        try container.rename("z", to: "f27")
        #expect(try read(container, portion: 1).dropFirst(2) == read(container, portion: 100).dropFirst(2))
    }

    @Test func departuresBeyondTheLimitAreForgotten() throws {
        let departures = Departures(capacity: 4)
        let name = try #require(try? ItemName.checked(Array("x".utf8)))
        for ino in UInt64(10)..<14 { departures.add(name, of: ino, from: 1) }
        #expect(!departures.hasForgotten && departures.name(of: 10, from: 1) == name)
        departures.forget([10, 11], from: 1)
        for ino in UInt64(20)..<22 { departures.add(name, of: ino, from: 2) }
        #expect(!departures.hasForgotten, "those were back")
        for ino in UInt64(30)..<50 { departures.add(name, of: ino, from: 3) }
        #expect(departures.hasForgotten)
        #expect(departures.name(of: 12, from: 1) == nil && departures.name(of: 49, from: 3) == name)
        #expect((UInt64(30)..<50).count { departures.name(of: $0, from: 3) != nil } == 4)
    }

    @Test func removedDirectoryIsEmpty() throws {
        let container = try TestContainer()
        let ino = try container.makeDirectory("d")
        _ = try container.lookup("d")
        try container.fs.removeDirectory(parent: 1, name: Array("d".utf8)).immediate
        #expect(try read(container, ino, portion: 10) == [".", ".."])
        #expect(try container.fs.attributes(of: ino).links == 0)
        #expect(errno { try container.create("x", in: ino) } == .ENOENT)
    }
}
