import Testing
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// Folders that are one document: shown as a whole or not at all.
@Suite struct PackageTests {
    private func run(
        _ scenario: @escaping @Sendable (Simulation, SimulatedDevice, SimulatedDevice) async throws -> Void
    ) async throws {
        try await Worlds.run(seed: 5, Simulation.Options(devices: ["a", "b"])) { world in
            try await scenario(world, world.a, world.b)
            try await world.settle()
            try await world.check()
        }
    }

    private func revisions(_ device: SimulatedDevice, in package: String) throws -> Set<Int64> {
        try device.index.read { reader in
            let top = try #require(try reader.row(path: SimulatedDevice.names(package)))
            return Set(
                try reader.members(of: top.key, limit: 10_000).compactMap {
                    try reader.remote(id: $0.id)?.revision.number
                })
        }
    }

    @Test func newPackageIsSentInOneCommit() async throws {
        try await run { world, a, b in
            try a.makeFolder("d.rtfd")
            try a.makeFolder("d.rtfd/images")
            try await a.create("d.rtfd/text", world.random.bytes(100))
            try await a.create("d.rtfd/images/large", world.random.bytes(700_000))
            try a.makeLink("d.rtfd/link", to: "text")
            try await world.settle()
            #expect(try revisions(b, in: "d.rtfd").count == 1)
            #expect(try b.paths().map(\.path).sorted().count == 5)
        }
    }

    @Test func slowlySavedPackageIsSentInOneCommit() async throws {
        try await run { world, a, b in
            try a.makeFolder("d.pages")
            for number in 0..<8 {
                try await a.create("d.pages/\(number)", world.random.bytes(1000))
                try await world.sleep(.milliseconds(200))
                #expect(try b.row("d.pages") == nil)
            }
            try await world.settle()
            #expect(try revisions(b, in: "d.pages").count == 1)
        }
    }

    @Test func contentsBeyondOneCommitAreSentAhead() async throws {
        try await run { world, a, b in
            try a.makeFolder("d.key")
            for number in 0..<100 { try await a.create("d.key/\(number)", world.random.bytes(60_000)) }
            try await world.settle()
            #expect(try revisions(b, in: "d.key").count == 1)
        }
    }

    @Test func onlyChangedMembersAreUploaded() async throws {
        try await run { world, a, b in
            try a.makeFolder("d.band")
            for number in 0..<5 { try await a.create("d.band/\(number)", world.random.bytes(80_000)) }
            try await world.settle()
            a.link.resetCounts()
            try await a.edit("d.band/3") { $0 + [1] }
            for number in [0, 1] { try await a.rewrite("d.band/\(number)") }
            try await world.settle()
            #expect(a.link.counts.contents == 1)
            #expect(try await b.read("d.band/3").count == 80_001)
        }
    }

    /// Sizes of all members of the package, by name, as a device shows it now.
    private func picture(_ device: SimulatedDevice) throws -> [String: Int64] {
        Dictionary(uniqueKeysWithValues: try device.paths().filter { $0.row.kind == .file }.map { ($0.path, $0.row.size) })
    }

    @Test(arguments: [false, true]) func anotherDeviceSeesOneStateOrTheOther(someAreAway: Bool) async throws {
        try await run { world, a, b in
            try a.makeFolder("d.numbers")
            for number in 0..<6 { try await a.create("d.numbers/\(number)", world.random.bytes(300_000 + number)) }
            try await world.settle()
            for number in 0..<6 { _ = try await b.read("d.numbers/\(number)") }
            if someAreAway { for number in [0, 4] { try b.evict("d.numbers/\(number)") } }
            let before = try picture(b)
            for number in 0..<4 { try await a.edit("d.numbers/\(number)") { $0 + [1, 2, 3] } }
            try await a.edit("d.numbers/0") { Array($0.prefix(10)) }
            try a.rename("d.numbers/4", "d.numbers/four")
            try a.remove("d.numbers/5")
            try await a.create("d.numbers/new", [1])
            let after = try picture(a)
            var seen: Set<String> = []
            while try picture(b) != after {
                let now = try picture(b)
                #expect(now == before, "\(now)")
                guard now == before else { return }
                seen.insert("before")
                try await world.sleep(.milliseconds(2))
            }
            #expect(seen == ["before"])
            try await world.settle()
            #expect(try picture(b) == after)
            #expect(try await b.read("d.numbers/0").count == 10)
            #expect(try b.index.read { try $0.records(.awaitingPackage, limit: 1) }.isEmpty)
        }
    }

    @Test func markDecidesWhetherAFolderIsAPackage() async throws {
        try await run { world, a, b in
            try a.makeFolder("plain")
            try a.setXattr("plain", "user.ubiquity.package", "1")
            try a.makeFolder("d.app")
            try a.setXattr("d.app", "user.ubiquity.package", "0")
            try await world.settle()
            #expect(try b.index.isPackage(b.live("plain")) && !b.index.isPackage(b.live("d.app")))
            try a.makeFolder("plain/inner.rtfd")
            try await a.create("plain/inner.rtfd/f", [1])
            try await a.create("plain/g", [2])
            try await world.settle()
            let member = try b.live("plain/inner.rtfd/f"), package = try b.live("plain")
            let found = try b.index.read { reader in
                var finder = try PackageFinder(reader, b.index)
                return try finder.package(of: member)
            }
            #expect(found == package.key)
        }
    }

    @Test func deletedOrMovedPackageIsSynced() async throws {
        try await run { world, a, b in
            for name in ["x.rtfd", "y.rtfd"] {
                try a.makeFolder(name)
                try await a.create(name + "/f", world.random.bytes(1000))
            }
            try await world.settle()
            _ = try await b.read("x.rtfd/f")
            try await a.edit("x.rtfd/f") { $0 + [1] }
            try a.rename("x.rtfd", "z.rtfd")
            try a.remove("y.rtfd/f")
            try a.remove("y.rtfd")
            try await world.settle()
            #expect(try b.paths().map(\.path).sorted() == ["z.rtfd", "z.rtfd/f"])
            #expect(try await b.read("z.rtfd/f").count == 1001)
        }
    }

    /// The download loop checks packages just when a lane has exchanged the content of one.
    @Test func exchangedContentIsNotDroppedAsUnneeded() async throws {
        try await run { world, a, b in
            try a.makeFolder("d.rtfd")
            for name in ["1", "2"] { try await a.create("d.rtfd/" + name, world.random.bytes(1000)) }
            try await world.settle()
            for name in ["1", "2"] { try await b.materialize("d.rtfd/" + name) }
            let engine = try b.engine, looks = Lock(0)
            try b.index.observe { events in
                guard events.contains(where: { $0.kind == .replaced }) else { return }
                looks.withLock { $0 += 1 }
                #expect(throws: Never.self) { try engine.fetch.packages.showReadyPackages() }
            }
            for name in ["1", "2"] { try await a.edit("d.rtfd/" + name) { $0 + [1] } }
            try await world.settle()
            #expect(looks.withLock { $0 } > 0)
            try engine.removeRetired()
            for name in ["1", "2"] { #expect(try await b.read("d.rtfd/" + name).count == 1001) }
        }
    }

    /// An attribute removed here while another device's package state is staged.
    @Test func removedAttributeStaysRemovedWhileThePackageWaits() async throws {
        try await run { world, a, b in
            try a.makeFolder("p.rtfd")
            try await a.create("p.rtfd/m", [1, 2, 3])
            try await a.create("p.rtfd/n", [4])
            try a.setXattr("p.rtfd", "user.tag", "1")
            try await world.settle()
            for path in ["p.rtfd/m", "p.rtfd/n"] { _ = try await b.read(path) }
            try b.setPaused(true)
            try b.removeXattr("p.rtfd", "user.tag")
            b.link.script(.fetchChunks, .hold(.seconds(5)))
            try await a.edit("p.rtfd/m") { _ in [5, 6] }
            try await world.sleep(.seconds(20))
            try b.setPaused(false)
            try await world.settle()
            for device in [a, b] {
                #expect(try device.live("p.rtfd").xattrs.isEmpty, "\(device.name)")
                #expect(try await device.read("p.rtfd/m") == [5, 6])
            }
            try await world.check()
        }
    }

    /// The package is not examined after each of many downloads.
    @Test func largePackageIsShownAfterItsLastDownload() async throws {
        try await run { world, a, b in
            try a.makeFolder("p.rtfd")
            for number in 0..<120 { try await a.create("p.rtfd/\(number)", [UInt8(number)]) }
            try await world.settle()
            for number in 0..<120 { _ = try await b.read("p.rtfd/\(number)") }
            try b.setPaused(true)
            for number in 0..<120 { try await a.edit("p.rtfd/\(number)") { _ in [UInt8(number), 1] } }
            try await world.sleep(.seconds(20))
            world.setWatchdog {
                let shown = Set(try (0..<120).map { try b.live("p.rtfd/\($0)").size })
                if shown.count > 1 { throw UbiquityError(.damaged, "a mixture of two states is shown") }
            }
            try b.setPaused(false)
            try await world.settle()
            #expect(try await b.read("p.rtfd/119") == [119, 1])
            try await world.check()
        }
    }
}
