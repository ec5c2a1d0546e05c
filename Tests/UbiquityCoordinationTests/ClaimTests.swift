import Testing
import UbiquityCoordination
import UbiquityCore
import UbiquityTestSupport

@Suite("Claims")
struct ClaimTests {
    @Test("LK-01: readers do not block readers")
    func readersShare() {
        var world = ModelWorld()
        let claims = (0..<100).map { _ in world.read(world.client(), 7) }
        #expect(claims.allSatisfy(world.isGranted))
    }

    @Test("LK-02, LK-03, LK-04: writers exclude readers and writers")
    func writersExclude() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        let reading = world.read(one, 7)
        let writing = world.write(two, 7)
        #expect(!world.isGranted(writing))
        world.end(reading)
        #expect(world.isGranted(writing))
        let nextReading = world.read(one, 7), nextWriting = world.write(one, 7)
        #expect(!world.isGranted(nextReading) && !world.isGranted(nextWriting))
        world.end(writing)
        #expect(world.isGranted(nextReading))
        #expect(world.isGranted(nextWriting), "one's own reading does not hold up one's own writing")
    }

    @Test("LK-05: a package is one unit, with nested packages")
    func packagesAreUnits() {
        var world = ModelWorld()
        let one = world.client(), two = world.client(), three = world.client()
        let writing = world.write(one, 400)
        let claims = [world.read(two, 20), world.read(two, 500), world.read(three, 600), world.write(three, 22)]
        #expect(claims.allSatisfy { !world.isGranted($0) })
        let beside = world.write(two, 100)
        #expect(world.isGranted(beside))
        world.end(writing)
        #expect(claims.prefix(3).allSatisfy(world.isGranted))
        #expect(!world.isGranted(claims[3]))
    }

    @Test("LK-06, LK-16: owners do not block themselves: client, its process, its children, one purpose")
    func ownersDoNotBlockThemselves() {
        var world = ModelWorld()
        world.tree.starters = [51: 50, 52: 51]
        let one = world.client("app", process: 50), child = world.client("helper", process: 52)
        let writing = world.claim(.client(one), [(7, .writing(nil))], purpose: "save")
        let byProgram = world.open(51, 7, writes: true)
        let nested = world.write(one, 7), byChild = world.write(child, 7)
        #expect([writing, nested, byChild, byProgram].allSatisfy(world.isGranted))
        world.end(nested)
        world.end(byChild)
        world.close(byProgram, 7)
        let other = world.client()
        let samePurpose = world.claim(.client(other), [(7, .writing(nil))], purpose: "save")
        #expect(world.isGranted(samePurpose))
        let otherPurpose = world.claim(.client(other), [(8, .writing(nil))], purpose: "copy")
        #expect(world.isGranted(otherPurpose))
        let stranger = world.open(60, 7)
        #expect(!world.isGranted(stranger))
    }

    @Test("LK-08: a waiting claim follows a moved item")
    func itemsMoveWhileWaitedFor() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        let writing = world.write(one, 100, .forMoving)
        let reading = world.read(two, 100)
        #expect(!world.isGranted(reading))
        world.tree.parents[ItemKey(100)] = ItemKey(12)
        world.end(writing)
        #expect(world.isGranted(reading))
    }

    @Test("LK-11: only deleting, moving or replacing a folder excludes claims on its members",
        arguments: [WritingOption.forDeleting, .forMoving, .forReplacing])
    func folders(option: WritingOption) {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        let inside = world.write(one, 200)
        let listing = world.read(two, 10), renaming = world.write(two, 11, .contentIndependentMetadataOnly)
        #expect(world.isGranted(listing) && world.isGranted(renaming))
        world.end(listing)
        world.end(renaming)
        let moving = world.write(two, 10, option)
        #expect(!world.isGranted(moving))
        let later = world.read(one, 100)
        #expect(world.isGranted(later), "who is waited for is not held up by the one who waits")
        world.end(later)
        world.end(inside)
        #expect(world.isGranted(moving))
        let third = world.client()
        let held = [world.read(third, 200), world.write(third, 11), world.read(third, 400)]
        #expect(held.allSatisfy { !world.isGranted($0) })
        let elsewhere = world.read(third, 300)
        #expect(world.isGranted(elsewhere))
        world.end(moving)
        #expect(held.allSatisfy(world.isGranted))
    }

    @Test("LK-13: a pair is acquired at once: two requests for it never hold one item each")
    func pairs() {
        var world = ModelWorld()
        let one = world.client(), two = world.client(), three = world.client()
        let first = world.write(three, 8)
        let forth = world.claim(.client(one), [(7, .reading([])), (8, .writing(nil))])
        let back = world.claim(.client(two), [(8, .reading([])), (7, .writing(nil))])
        #expect(!world.isGranted(forth) && !world.isGranted(back))
        world.end(first)
        #expect(world.isGranted(forth) && !world.isGranted(back))
        world.end(forth)
        #expect(world.isGranted(back))
    }

    @Test("LK-14: a batch of thousands is one claim, and accesses under it ask nobody again")
    func batches() {
        var world = ModelWorld()
        let app = world.client("editor"), batch = world.client("import")
        let shown = world.presenter(of: app, 1500)
        let intents = (1000..<6000).map { (Int64($0), Access.writing(nil)) }
        let prepared = world.claim(.client(batch), intents)
        #expect(world.questions.map(\.presenter) == [shown])
        world.answer(world.questions[0])
        #expect(world.isGranted(prepared))
        let inner = (1000..<6000).map { world.write(batch, Int64($0)) }
        #expect(inner.allSatisfy(world.isGranted))
        #expect(world.questions.count == 1)
        let reading = world.read(app, 5999)
        #expect(!world.isGranted(reading))
        for claim in inner { world.end(claim) }
        world.end(prepared)
        #expect(world.isGranted(reading))
    }

    @Test("LK-15: cancellation and timeout give different errors")
    func endings() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        world.write(one, 7)
        let cancelled = world.read(two, 7)
        world.end(cancelled)
        #expect(world.failure(of: cancelled) == .cancelled)
        let late = world.claim(.client(two), [(7, .reading([]))], limit: .seconds(5))
        world.pass(.seconds(4))
        #expect(world.failure(of: late) == nil)
        world.pass(.seconds(1))
        #expect(world.failure(of: late) == .timedOut)
        let impatient = world.claim(.client(two), [(7, .reading([]))], mayWait: false)
        #expect(world.failure(of: impatient) == .wouldWait)
        let orphaned = world.claim(.client(ClientID(9999)), [(7, .reading([]))])
        #expect(world.failure(of: orphaned) == .unknownClient)
    }

    @Test("a stream of readers does not starve a writer")
    func fairness() {
        var world = ModelWorld()
        let writer = world.client()
        var reading = world.read(world.client(), 7)
        let writing = world.write(writer, 7)
        let next = (0..<10).map { _ in world.read(world.client(), 7) }
        #expect(next.allSatisfy { !world.isGranted($0) })
        world.end(reading)
        #expect(world.isGranted(writing))
        #expect(next.allSatisfy { !world.isGranted($0) })
        world.end(writing)
        #expect(next.allSatisfy(world.isGranted))
        reading = next[0]
    }

    @Test("metadata reads pass content writers, but not deletions and moves")
    func metadata() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        let writing = world.write(one, 7), deleting = world.write(one, 8, .forDeleting)
        let glance = world.read(two, 7, .immediatelyAvailableMetadataOnly)
        let other = world.read(two, 8, .immediatelyAvailableMetadataOnly)
        #expect(world.isGranted(glance) && !world.isGranted(other))
        world.end(deleting)
        #expect(world.isGranted(other))
        world.end(writing)
    }

    @Test("a free name can be claimed, together with an item that appears there")
    func names() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        let name = ItemName(stored: Array("new.txt".utf8))
        let request = ClaimRequest(
            owner: .client(one), intents: [ClaimIntent(ClaimTarget(name: name, in: ItemKey(10)), .writing(nil))])
        let (claim, actions) = world.arbiter.request(request, now: world.now, in: world.tree)
        #expect(actions == [.granted(claim)])
        world.tree.names[ItemKey(150)] = name
        let reading = world.read(two, 150)
        #expect(!world.isGranted(reading))
        world.end(claim)
        #expect(world.isGranted(reading))
    }

    /// One client reads, the other waits to write. The first begins a second read before the first one ends, and then a
    /// third.
    private func overlap() -> (
        ModelWorld, clients: (ClientID, ClientID), writer: ClaimID, second: ClaimID, third: ClaimID
    ) {
        var world = ModelWorld()
        let (one, two) = (world.client(), world.client())
        let first = world.read(one, 7)
        let writer = world.write(two, 7)
        // It may be nested in the first read, and the writer waits for that one.
        let second = world.read(one, 7)
        #expect(world.isGranted(second) && !world.isGranted(writer))
        world.end(first)
        let third = world.read(one, 7)
        #expect(!world.isGranted(third))
        return (world, (one, two), writer, second, third)
    }

    @Test("LK-09: overlapping readers of a client starve no writer, and nested ones do not wait")
    func overlappingReaders() {
        var (world, _, writer, second, third) = overlap()
        world.end(second)
        #expect(world.isGranted(writer) && !world.isGranted(third))
        world.end(writer)
        #expect(world.isGranted(third))
    }

    @Test("LK-09: a nested reader passes a request that waits for its owner")
    func nestedReaders() {
        var (world, clients, writer, second, third) = overlap()
        let (one, two) = clients
        for _ in 0..<20 { world.pass(.milliseconds(500)) }
        #expect(world.isGranted(third) && world.failure(of: third) == nil && !world.isGranted(writer))
        // Claims of one purpose are nested at once.
        let fourth = world.claim(.client(one), [(7, .reading([]))], purpose: "p")
        for claim in [third, second] { world.end(claim) }
        #expect(!world.isGranted(fourth))
        world.end(writer)
        #expect(world.isGranted(fourth))
        let next = world.write(two, 7)
        let fifth = world.claim(.client(one), [(7, .reading([]))], purpose: "p")
        world.end(fourth)
        let sixth = world.claim(.client(one), [(7, .reading([]))], purpose: "p")
        #expect(world.isGranted(sixth))
        world.end(fifth)
        #expect(!world.isGranted(next))
    }
}
