import Testing
internal import UbiquityContent
import UbiquityCore
import UbiquityIndex
import UbiquitySystem
import UbiquityTestSupport
@testable import UbiquitySync

/// Two concurrent changes of one package: one whole state wins, the other is kept whole.
@Suite struct PackageConflictTests {
    func run(
        _ devices: [String] = ["a", "b", "c"], seed: UInt64 = 5, process: Int32 = 0,
        _ scenario: @escaping @Sendable (Simulation) async throws -> Void
    ) async throws {
        try await Worlds.run(seed: seed, Simulation.Options(devices: devices, process: process)) { world in
            try await scenario(world)
            try await world.settle()
            try await world.check()
        }
    }

    /// Names and contents of a package's files (folders have no content), as a device shows them.
    func state(_ device: SimulatedDevice, _ package: String = "d.rtfd") async throws -> [String: [UInt8]] {
        var result: [String: [UInt8]] = [:]
        for (path, row) in try device.paths() where path.hasPrefix(package + "/") {
            result[String(path.dropFirst(package.count + 1))] = row.kind == .file ? try await device.read(path) : []
        }
        return result
    }

    func versions(_ device: SimulatedDevice, _ package: String = "d.rtfd") throws -> [RemoteVersion] {
        let row = try device.live(package)
        return try device.index.read { try $0.conflicts(of: row.id) }
    }

    func make(_ world: Simulation) async throws {
        try world.a.makeFolder("d.rtfd")
        try world.a.makeFolder("d.rtfd/images")
        for name in ["text", "images/one", "images/two", "old"] {
            try await world.a.create("d.rtfd/" + name, world.random.bytes(name == "images/two" ? 400_000 : 100))
        }
        try await world.settle()
        for device in world.devices {
            for name in ["text", "images/one", "images/two", "old"] { try await device.materialize("d.rtfd/" + name) }
        }
        try await world.settle()
    }

    /// - Parameter aFirst: whether the changes of `a` reach the cloud first.
    func meet(
        _ world: Simulation, aFirst: Bool, _ first: (SimulatedDevice) async throws -> Void,
        _ second: (SimulatedDevice) async throws -> Void
    ) async throws -> (a: [String: [UInt8]], b: [String: [UInt8]]) {
        var states = (a: [String: [UInt8]](), b: [String: [UInt8]]())
        try await apart(world, aFirst: aFirst) {
            try await first(world.a)
        } _: {
            try await second(world.b)
            states = (try await state(world.a), try await state(world.b))
        }
        return states
    }

    /// Each of the two gets the other's changes after its own; the second device's are later.
    func apart(
        _ world: Simulation, aFirst: Bool, _ a: () async throws -> Void, _ b: () async throws -> Void
    ) async throws {
        for device in [world.a, world.b] { try device.setPaused(true) }
        try await a()
        try await world.sleep(.seconds(5))
        try await b()
        for device in aFirst ? [world.a, world.b] : [world.b, world.a] {
            try device.setPaused(false)
            try await world.settle(world.devices.filter { $0 === device || $0.name == "c" })
        }
        try await world.settle()
    }

    @Test(arguments: [true, false]) func differentMembersAreNotMixed(aFirst: Bool) async throws {
        try await run { world in
            try await make(world)
            let (a, b) = try await meet(world, aFirst: aFirst) { a in
                try await a.edit("d.rtfd/text") { _ in [1] }
                try a.remove("d.rtfd/old")
                try await a.create("d.rtfd/ofA", [2])
            } _: { b in
                try await b.edit("d.rtfd/images/one") { _ in [3] }
                try b.rename("d.rtfd/images/two", "d.rtfd/moved")
                try await b.create("d.rtfd/images/ofB", [4])
            }
            for device in world.devices {
                #expect(try await state(device) == b)
                let kept = try versions(device)
                #expect(kept.count == 1 && kept.first?.content.deviceName == "a")
                #expect(try await device.members(of: #require(kept.first)) == a)
                #expect(try device.engine.status(of: device.live("d.rtfd")).conflictCount == 1)
            }
        }
    }

    /// One process removes a member and creates it again, and the removal was sent in between.
    @Test(arguments: [true, false], [true, false]) func recreatedMemberIsNotMixed(
        aFirst: Bool, isLater: Bool
    ) async throws {
        try await run(process: ProcessHost.id) { world in
            try await make(world)
            let item = try world.a.live("d.rtfd/old").id
            try world.a.remove("d.rtfd/old")
            try await world.settle()
            #expect(try world.a.row("d.rtfd/old") == nil)
            let (anew, edits) = (
                { (device: SimulatedDevice) in
                    try await device.create("d.rtfd/old", [1])
                    #expect(try device.live("d.rtfd/old").id == item)
                }, { (device: SimulatedDevice) in try await device.edit("d.rtfd/text") { _ in [2] } }
            )
            var states = (a: [String: [UInt8]](), b: [String: [UInt8]]())
            try await apart(world, aFirst: aFirst) {
                if isLater { try await edits(world.b) } else { try await anew(world.a) }
            } _: {
                if isLater { try await anew(world.a) } else { try await edits(world.b) }
                states = (try await state(world.a), try await state(world.b))
            }
            let (winner, loser) = isLater ? (states.a, states.b) : (states.b, states.a)
            for device in world.devices {
                #expect(try await state(device) == winner)
                #expect(try await device.members(of: #require(try versions(device).first)) == loser)
            }
        }
    }

    @Test(arguments: [true, false]) func oneMemberOnBothSides(aFirst: Bool) async throws {
        try await run { world in
            try await make(world)
            let (a, b) = try await meet(world, aFirst: aFirst) { a in
                try await a.edit("d.rtfd/text") { _ in [1] }
                try await a.edit("d.rtfd/images/two") { $0 + [9] }
            } _: { b in
                try await b.edit("d.rtfd/text") { _ in [2] }
            }
            for device in world.devices {
                #expect(try await state(device) == b)
                #expect(try await device.members(of: #require(try versions(device).first)) == a)
                #expect(try device.index.read { try $0.conflictCount(of: device.live("d.rtfd/text")) } == 0)
            }
        }
    }

    @Test func equalStatesAreNoConflict() async throws {
        try await run { world in
            try await make(world)
            _ = try await meet(world, aFirst: true) { a in
                try await a.edit("d.rtfd/text") { _ in [1] }
                try await a.create("d.rtfd/new", [2])
            } _: { b in
                try await b.edit("d.rtfd/text") { _ in [1] }
                try await b.create("d.rtfd/new", [2])
            }
            for device in world.devices {
                #expect(try versions(device).isEmpty)
                #expect(try await state(device)["new"] == [2])
                #expect(try device.paths().count == 7)
            }
        }
    }

    /// In Documents as well, where other files of one name stay separate.
    @Test(arguments: [true, false], [true, false]) func equalAdditionsMerge(aFirst: Bool, inFolder: Bool) async throws {
        try await run { world in
            try world.a.makeFolder("Documents")
            try world.a.makeFolder("Documents/d.rtfd")
            try await world.a.create("Documents/d.rtfd/text", [1])
            try await world.settle()
            let add = { (device: SimulatedDevice) in
                if inFolder { try device.makeFolder("Documents/d.rtfd/images") }
                try await device.create(inFolder ? "Documents/d.rtfd/images/new" : "Documents/d.rtfd/new", [2])
            }
            try await apart(world, aFirst: aFirst) {
                try await add(world.a)
            } _: {
                try await add(world.b)
            }
            for device in world.devices {
                #expect(try versions(device, "Documents/d.rtfd").isEmpty)
                let names = try await state(device, "Documents/d.rtfd").keys.sorted()
                #expect(names == (inFolder ? ["images", "images/new", "text"] : ["new", "text"]))
            }
        }
    }

    @Test(arguments: [true, false]) func editWinsOverThePackagesDeletion(aFirst: Bool) async throws {
        try await run { world in
            try await make(world)
            let (_, b) = try await meet(world, aFirst: aFirst) { a in
                for name in ["text", "images/one", "images/two", "old", "images"] { try a.remove("d.rtfd/" + name) }
                try a.remove("d.rtfd")
            } _: { b in
                try await b.edit("d.rtfd/text") { _ in [2] }
            }
            for device in world.devices {
                #expect(try await state(device) == b)
                #expect(try versions(device).isEmpty)
            }
        }
    }

    @Test func renameAndEditOfAPackageAreBothKept() async throws {
        try await run { world in
            try await make(world)
            _ = try await meet(world, aFirst: true) { a in try a.rename("d.rtfd", "e.rtfd") } _: { b in
                try await b.edit("d.rtfd/text") { _ in [2] }
            }
            for device in world.devices {
                #expect(try await state(device, "e.rtfd")["text"] == [2])
                #expect(try versions(device, "e.rtfd").isEmpty)
            }
        }
    }

    @Test func newPackagesOfOneNameStaySeparate() async throws {
        try await run { world in
            for device in [world.a, world.b] { try device.setPaused(true) }
            for device in [world.a, world.b] {
                try device.makeFolder("n.pages")
                try await device.create("n.pages/x", Array(device.name.utf8))
            }
            for device in [world.a, world.b] { try device.setPaused(false) }
            try await world.settle()
            let all = try await [state(world.devices[2], "n.pages"), state(world.devices[2], "n 2.pages")]
            #expect(Set(all.compactMap { $0["x"] }) == [Array("a".utf8), Array("b".utf8)])
            #expect(all.allSatisfy { $0.count == 1 })
        }
    }

    /// Three devices: two states are kept.
    @Test func thirdStateIsKeptToo() async throws {
        try await run { world in
            try await make(world)
            for device in world.devices { try device.setPaused(true) }
            var states: [[String: [UInt8]]] = []
            for (number, device) in world.devices.enumerated() {
                try await device.edit("d.rtfd/" + ["text", "old", "images/one"][number]) { _ in [UInt8(number)] }
                try await world.sleep(.seconds(3))
                states.append(try await state(device))
            }
            for device in world.devices { try device.setPaused(false) }
            try await world.settle()
            for device in world.devices {
                #expect(try await state(device) == states[2])
                var kept: [[String: [UInt8]]] = []
                for version in try versions(device) { kept.append(try await device.members(of: version)) }
                #expect(kept.count == 2 && kept.contains(states[0]) && kept.contains(states[1]))
            }
        }
    }

    enum Mishap: CaseIterable, Sendable {
        case answerLost, diesBefore, diesAfter, thirdComesBetween
    }

    /// The second device dies, or loses the answer, when it commits the winning and the kept state.
    @Test(arguments: Mishap.allCases, [true, false]) func packageResolutionSurvivesFaults(mishap: Mishap, isNewer: Bool) async throws {
        try await run { world in
            try await make(world)
            let (a, b, c) = (world.a, world.b, world.devices[2])
            for device in world.devices { try device.setPaused(true) }
            let (first, second) = isNewer ? (a, b) : (b, a)
            try await first.edit("d.rtfd/text") { _ in [1] }
            try await first.create("d.rtfd/of " + first.name, [2])
            try await world.sleep(.seconds(5))
            try await second.edit("d.rtfd/images/one") { _ in [3] }
            try second.remove("d.rtfd/old")
            let states = [try await state(a), try await state(b)]
            try a.setPaused(false)
            try await world.settle([a])
            // The first commit of `b` is refused, the second contains the resolution.
            b.link.script(.commit, .hold(.milliseconds(1)))
            switch mishap {
            case .answerLost: b.link.script(.commit, .loseAnswer)
            case .diesBefore: b.link.script(.commit, .vanishBefore { b.crash() })
            case .diesAfter: b.link.script(.commit, .vanishAfter { b.crash() })
            case .thirdComesBetween:
                b.link.script(.commit, .hold(.seconds(5)))
                try c.setPaused(false)
                try await world.settle([c])
                try await c.edit("d.rtfd/images/two") { _ in [4] }
                try await world.sleep(.milliseconds(10))
            }
            try b.setPaused(false)
            try await world.sleep(.seconds(60))
            if !b.isRunning { try b.start() }
            for device in world.devices { try device.setPaused(false) }
            try await world.settle()
            let winner = isNewer ? states[1] : states[0], loser = isNewer ? states[0] : states[1]
            for device in world.devices where mishap != .thirdComesBetween {
                #expect(try await state(device) == winner)
                let kept = try versions(device)
                #expect(kept.count == 1)
                #expect(try await device.members(of: #require(kept.first)) == loser)
            }
            let shown = try await state(c)
            for device in world.devices { #expect(try await state(device) == shown) }
        }
    }

    /// A device dies after the cloud accepted its state of a package, without the answer, and another continues from
    /// that state. Seeds 9602154 and 9604427 of the simulator: of the repeated commit the cloud applied only the new
    /// members.
    @Test(arguments: [false, true]) func commitWithLostAnswerIsSentAsAWhole(isNew: Bool) async throws {
        try await run { world in
            let (a, b) = (world.a, world.b)
            if isNew {
                a.link.script(.commit, .vanishAfter { a.crash() })
                try a.makeFolder("d.rtfd")
                try a.makeFolder("d.rtfd/images")
                for name in ["text", "images/one"] { try await a.create("d.rtfd/" + name, [1]) }
            } else {
                try await make(world)
                a.link.script(.commit, .vanishAfter { a.crash() })
                for name in ["text", "images/one"] { try await a.edit("d.rtfd/" + name) { _ in [1] } }
            }
            try await world.sleep(.seconds(60))
            #expect(!a.isRunning)
            try await world.settle([b])
            #expect(try await state(b)["text"] == [1])
            for name in ["text", "images/one"] { try await b.edit("d.rtfd/" + name) { _ in [2] } }
            try await world.settle([b])
            try a.start()
            try a.setPaused(true)
            try await a.edit("d.rtfd/text") { _ in [3] }
            let states = (a: try await state(a), b: try await state(b))
            try a.setPaused(false)
            try await world.settle()
            for device in world.devices {
                #expect(try await state(device) == states.a)
                #expect(try await device.members(of: #require(try versions(device).first)) == states.b)
            }
        }
    }

    /// Killed at any of its writes during the resolution.
    @Test(arguments: 1...10) func packageResolutionSurvivesAKillAtAnyWrite(write: Int) async throws {
        try await run { world in
            try await make(world)
            let (a, b) = (world.a, world.b)
            for device in [a, b] { try device.setPaused(true) }
            try await b.edit("d.rtfd/text") { _ in [1] }
            try await b.create("d.rtfd/new", [2])
            try await world.sleep(.seconds(5))
            try await a.edit("d.rtfd/images/one") { _ in [3] }
            let states = [try await state(a), try await state(b)]
            try a.setPaused(false)
            try await world.settle([a])
            try b.setPaused(false)
            b.crash(afterWrites: write * 2, powerLoss: false)
            try await world.sleep(.seconds(60))
            try await world.heal()
            try await world.settle()
            for device in world.devices {
                #expect(try await state(device) == states[0])
                #expect(try await device.members(of: #require(try versions(device).first)) == states[1])
            }
        }
    }
}
