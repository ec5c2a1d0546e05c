import Testing
import UbiquityCoordination
import UbiquityCore
import UbiquityTestSupport

@Suite("Circles")
struct DeadlockTests {
    @Test("who would wait for what waits for him, within one purpose, is told at once")
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

    @Test("without purposes a circle is broken when it has stood some time, by its youngest")
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

    @Test("two things that two clients do at the same time are no circle if they end")
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

    @Test("the order of arrival makes no circle: who is waited for passes the one who waits")
    func passing() {
        var world = ModelWorld()
        let one = world.client(), two = world.client(), three = world.client()
        let held = world.write(one, 7)
        let both = world.claim(.client(two), [(7, .writing(nil)), (8, .writing(nil))])
        let passes = world.write(one, 8)
        #expect(world.isGranted(passes) && !world.isGranted(both))
        // Also over a third: it waits for the second, who waits for the first.
        let third = world.claim(.client(three), [(8, .writing(nil)), (9, .writing(nil))])
        let passesToo = world.write(one, 9)
        #expect(world.isGranted(passesToo) && !world.isGranted(third))
        for claim in [held, passes, passesToo] { world.end(claim) }
        #expect(world.isGranted(both) && !world.isGranted(third))
    }

    @Test("a plain program that has a file open and a client can wait for each other, too")
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
