import Testing
import UbiquityCoordination
import UbiquityCore
import UbiquityTestSupport

@Suite("Plain programs")
struct ProgramTests {
    @Test("LK-10, LK-17: programs and clients block each other, by open and close alone")
    func programsAndClients() {
        var world = ModelWorld()
        let app = world.client()
        let writing = world.open(60, 7, writes: true)
        let reading = world.read(app, 7)
        #expect(world.isGranted(writing) && !world.isGranted(reading))
        world.close(writing, 7)
        #expect(world.isGranted(reading))
        let reader = world.open(61, 7), writer = world.open(62, 7, writes: true)
        #expect(world.isGranted(reader) && !world.isGranted(writer))
        world.end(reading)
        #expect(world.isGranted(writer))
    }

    @Test("programs do not block each other, unless the arbiter is strict", arguments: [false, true])
    func programsAmongThemselves(isStrict: Bool) {
        var world = ModelWorld(isStrict: isStrict)
        world.tree.starters = [61: 60]
        let first = world.open(60, 7, writes: true)
        let child = world.open(61, 7, writes: true), stranger = world.open(62, 7)
        #expect(world.isGranted(first) && world.isGranted(child))
        #expect(world.isGranted(stranger) == !isStrict)
        world.close(first, 7)
        world.close(child, 7)
        #expect(world.isGranted(stranger))
    }

    @Test("an open viewer does not block saves for ever; a writer does")
    func patience() {
        var world = ModelWorld()
        let app = world.client()
        let viewer = world.open(60, 7), editor = world.open(61, 8, writes: true)
        let past = world.write(app, 7), behind = world.write(app, 8)
        world.pass(.seconds(9))
        #expect(!world.isGranted(past))
        world.pass(.seconds(1))
        #expect(world.isGranted(past) && !world.isGranted(behind))
        world.close(editor, 8)
        #expect(world.isGranted(behind))
        world.close(viewer, 7)
    }

    @Test("LK-12: a program's earlier open blocks a later claim on its package")
    func openBefore() {
        var world = ModelWorld()
        let member = world.open(60, 500, writes: true)
        let app = world.client()
        let whole = world.write(app, 20)
        #expect(!world.isGranted(whole))
        world.close(member, 500)
        #expect(world.isGranted(whole))
        let folder = world.open(60, 200, writes: true)
        let moving = world.write(app, 10, .forMoving)
        #expect(!world.isGranted(moving))
        world.close(folder, 200)
        #expect(!world.isGranted(moving) == false)
    }

    @Test("presenters and claims elsewhere do not affect an open")
    func unconcerned() {
        var world = ModelWorld()
        let app = world.client()
        for number in 1000..<2000 { _ = world.presenter(of: app, Int64(number)) }
        let open = world.open(60, 7)
        #expect(world.log == [.granted(open)])
        #expect(world.arbiter.snapshot(limit: 10, now: world.now, in: world.tree).plainOpens == 1)
    }
}
