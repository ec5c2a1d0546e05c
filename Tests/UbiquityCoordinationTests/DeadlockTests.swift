import Testing
import UbiquityCoordination
import UbiquityCore
import UbiquityTestSupport

@Suite("Deadlocks")
struct DeadlockTests {
    @Test("a deadlock within one purpose fails at once")
    func atOnce() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        world.claim(.client(one), [(7, .writing(nil))], purpose: "a")
        world.claim(.client(two), [(8, .writing(nil))], purpose: "b")
        let first = world.claim(.client(one), [(8, .writing(nil))], purpose: "a")
        let second = world.claim(.client(two), [(7, .writing(nil))], purpose: "b")
        #expect(world.failure(of: first) == nil)
        #expect(world.failure(of: second) == .deadlock)
    }

    @Test("without purposes a deadlock is broken after some time, by its youngest request")
    func afterSomeTime() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        world.write(one, 7)
        world.write(two, 8)
        let first = world.write(one, 8), second = world.write(two, 7)
        world.pass(.seconds(1))
        world.pass(.seconds(4))
        #expect(world.failure(of: second) == nil)
        world.pass(.seconds(1))
        #expect(world.failure(of: second) == .deadlock && world.failure(of: first) == nil)
    }

    @Test("two parallel operations of two clients are no deadlock if they end")
    func noCircle() {
        var world = ModelWorld()
        let one = world.client(), two = world.client()
        let held = world.write(one, 7)
        world.write(two, 8)
        let first = world.write(one, 8), second = world.write(two, 7)
        world.pass(.seconds(1))
        world.end(held)
        #expect(world.isGranted(second))
        world.pass(.seconds(60))
        #expect(world.failure(of: first) == nil && world.failure(of: second) == nil)
    }

    @Test("the order of arrival makes no deadlock: the awaited owner passes the waiting request")
    func passing() {
        var world = ModelWorld()
        let one = world.client(), two = world.client(), three = world.client()
        let held = world.write(one, 7)
        let both = world.claim(.client(two), [(7, .writing(nil)), (8, .writing(nil))])
        let passes = world.write(one, 8)
        #expect(world.isGranted(passes) && !world.isGranted(both))
        // Also through a third client: it waits for the second, which waits for the first.
        let third = world.claim(.client(three), [(8, .writing(nil)), (9, .writing(nil))])
        let passesToo = world.write(one, 9)
        #expect(world.isGranted(passesToo) && !world.isGranted(third))
        for claim in [held, passes, passesToo] { world.end(claim) }
        #expect(world.isGranted(both) && !world.isGranted(third))
    }

    @Test("a plain program with an open file and a client can deadlock too")
    func withPrograms() {
        var world = ModelWorld()
        let app = world.client()
        world.write(app, 7)
        world.open(60, 8, writes: true)
        let waiting = world.write(app, 8), opening = world.open(60, 7)
        for _ in 0..<8 { world.pass(.seconds(1)) }
        #expect(world.failure(of: opening) == .deadlock && world.failure(of: waiting) == nil)
    }
}
