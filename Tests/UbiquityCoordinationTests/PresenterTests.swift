import Testing
import UbiquityCoordination
import UbiquityCore
import UbiquityTestSupport

@Suite("Presenters")
struct PresenterTests {
    @Test("RT-01, RT-06, RT-10: a plain reader makes the editor relinquish and save first")
    func readerAsksToSave() throws {
        var world = ModelWorld()
        let app = world.client("editor", process: 50)
        let shown = world.presenter(of: app, 7)
        let cat = world.open(60, 7)
        #expect(!world.isGranted(cat))
        let question = try #require(world.questions.first)
        #expect(question.presenter == shown)
        #expect(question.steps == [.relinquishToReader, .saveChanges])
        // The presenter saves by plain calls of its own process, and by a claim. Both pass before the waiting claim.
        let own = world.open(50, 7, writes: true)
        let saving = world.claim(.client(app), [(7, .writing(nil))], presenter: shown)
        #expect(world.isGranted(own) && world.isGranted(saving))
        world.answer(question)
        #expect(!world.isGranted(cat), "what is being saved is waited for")
        world.close(own, 7)
        world.end(saving)
        #expect(world.isGranted(cat))
        #expect(!world.reacquired(question))
        world.close(cat, 7)
        #expect(world.reacquired(question))
    }

    @Test("RT-02, RT-03: relinquish, then reacquire when the other access ends", arguments: [true, false])
    func relinquishAndReacquire(reads: Bool) throws {
        var world = ModelWorld()
        let app = world.client(), other = world.client()
        _ = world.presenter(of: app, 7)
        let claim = reads ? world.read(other, 7, .withoutChanges) : world.write(other, 7)
        let question = try #require(world.questions.first)
        #expect(question.steps == [reads ? .relinquishToReader : .relinquishToWriter])
        world.answer(question)
        #expect(world.isGranted(claim) && !world.reacquired(question))
        world.end(claim)
        #expect(world.reacquired(question))
    }

    @Test("each access asks for its steps", arguments: [
        (Access.writing(.forDeleting), [PresenterDescription.Ability.relinquishToWriter, .accommodateDeletion]),
        (.writing(.forReplacing), [.relinquishToWriter, .accommodateDeletion]),
        (.writing(.forMerging), [.relinquishToWriter, .saveChanges]),
        (.writing(.forMoving), [.relinquishToWriter]),
        (.writing(.contentIndependentMetadataOnly), [.relinquishToWriter]),
        (.reading(.forUploading), [.relinquishToReader, .saveChanges]),
        (.reading(.immediatelyAvailableMetadataOnly), []),
        (.evicting, [.accommodateEviction]),
    ])
    func demands(access: Access, steps: [PresenterDescription.Ability]) {
        var world = ModelWorld()
        let app = world.client(), other = world.client()
        _ = world.presenter(of: app, 7)
        let claim = world.claim(.client(other), [(7, access)])
        #expect(world.questions.flatMap(\.steps) == steps)
        #expect(world.isGranted(claim) == steps.isEmpty)
    }

    @Test("RT-05: a late presenter is skipped, marked and notified, and not awaited again")
    func passedOver() throws {
        var world = ModelWorld()
        let app = world.client("slow"), other = world.client()
        _ = world.presenter(of: app, 7)
        let first = world.read(other, 7)
        let question = try #require(world.questions.first)
        world.pass(.seconds(9))
        #expect(!world.isGranted(first))
        world.pass(.seconds(1))
        #expect(world.isGranted(first))
        #expect(world.log.contains(.passedOver(question.id, app, question.presenter)))
        #expect(world.arbiter.snapshot(limit: 10, now: world.now, in: world.tree).clients.first?.isUnresponsive == true)
        world.end(first)
        let second = world.read(other, 7)
        #expect(world.isGranted(second) && world.questions.count == 2, "asked, but not waited for")
        world.answer(world.questions[1])
        world.end(second)
        let third = world.read(other, 7)
        #expect(!world.isGranted(third), "it has shown that it is there")
    }

    @Test("LK-15: one presenter that cannot save fails the wait, with its reason")
    func refusal() throws {
        var world = ModelWorld()
        let app = world.client("editor"), other = world.client()
        let shown = world.presenter(of: app, 7), more = world.presenter(of: world.client(), 7)
        let claim = world.read(other, 7)
        #expect(world.questions.map(\.presenter) == [shown, more])
        world.answer(world.questions[1])
        world.answer(world.questions[0], refusal: "the disk is full")
        #expect(world.failure(of: claim) == .refused(shown, client: "editor", reason: "the disk is full"))
        #expect(world.questions.allSatisfy(world.reacquired))
    }

    @Test("PN-01: a removed client is not awaited, and its claims are released")
    func clientsDie() {
        var world = ModelWorld()
        let app = world.client(), other = world.client()
        _ = world.presenter(of: app, 7)
        let held = world.write(app, 8), waitsForHim = world.read(other, 8)
        let asks = world.read(other, 7)
        let waits = world.write(app, 8)
        #expect(world.isGranted(held) && world.isGranted(waits))
        #expect(!world.isGranted(asks) && !world.isGranted(waitsForHim))
        world.leave(app)
        #expect(world.isGranted(asks) && world.isGranted(waitsForHim))
        #expect(world.arbiter.violation(in: world.tree) == nil)
    }

    @Test("PN-08: presenters are not asked about their own access")
    func ownAccess() {
        var world = ModelWorld()
        let app = world.client("app", process: 50)
        let mine = world.presenter(of: app, 7), also = world.presenter(of: app, 7)
        let claim = world.claim(.client(app), [(7, .writing(nil))], presenter: mine)
        #expect(world.questions.map(\.presenter) == [also], "another presenter, in the same program, is")
        world.answer(world.questions[0])
        #expect(world.isGranted(claim))
        world.end(claim)
        let plain = world.open(50, 7, writes: true)
        #expect(world.isGranted(plain) && world.questions.count == 1)
    }

    @Test("PN-12, RT-09: presenters of the item and its folders are asked before a deletion")
    func deletion() {
        var world = ModelWorld()
        let app = world.client(), shelf = world.client(), other = world.client()
        let shown = world.presenter(of: app, 200), folder = world.presenter(of: shelf, 10)
        let deleting = world.write(other, 200, .forDeleting)
        #expect(world.questions.map(\.presenter) == [shown, folder])
        #expect(world.questions.last?.steps == [.accommodateSubitemDeletion])
        #expect(world.questions.last?.subitems == [ItemKey(200)])
        for question in world.questions { world.answer(question) }
        #expect(world.isGranted(deleting))
    }

    @Test("LK-11: deleting a folder asks presenters of its members")
    func folderDeletion() {
        var world = ModelWorld()
        let app = world.client(), other = world.client()
        let inside = world.presenter(of: app, 200), elsewhere = world.presenter(of: app, 300)
        world.write(other, 10, .forDeleting)
        #expect(world.questions.map(\.presenter) == [inside])
        #expect(!world.questions.map(\.presenter).contains(elsewhere))
    }

    @Test("PN-15: presenters are limited and are removed with their client")
    func cap() {
        var world = ModelWorld()
        let app = world.client()
        for number in 0..<ArbiterLimits.presentersPerClient {
            let target = ClaimTarget(item: ItemKey(Int64(1000 + number)), entry: nil, isFolder: false)
            _ = world.arbiter.add(PresenterDescription(target: target, abilities: []), for: app, in: world.tree)
        }
        let more = PresenterDescription(target: world.target(7), abilities: [])
        #expect(world.arbiter.add(more, for: app, in: world.tree) == nil)
        world.leave(app)
        #expect(!world.arbiter.hasPresenters)
    }

    @Test("PN-03, PN-17: a folder's presenters get its members' events, an item's presenters the item's")
    func concerned() {
        var world = ModelWorld()
        let app = world.client()
        let folder = world.presenter(of: app, 10), top = world.presenter(of: app, 1), item = world.presenter(of: app, 200)
        let heard = world.arbiter.presenters(
            concernedBy: ItemKey(200), entry: world.tree.entry(of: ItemKey(200)), in: world.tree)
        #expect(heard.item == [item] && heard.folders == [folder, top])
    }

    @Test("LK-07: an open under the client's own claim asks nobody again")
    func opensUnderClaims() {
        var world = ModelWorld()
        world.tree.starters = [61: 60]
        let app = world.client("editor", process: 50), reader = world.client("reader", process: 60)
        _ = world.presenter(of: app, 7)
        let claim = world.read(reader, 7)
        world.answer(world.questions[0])
        #expect(world.isGranted(claim))
        let own = world.open(60, 7), byChild = world.open(61, 7)
        #expect(world.isGranted(own) && world.isGranted(byChild) && world.questions.count == 1)
        let stranger = world.open(62, 7)
        #expect(!world.isGranted(stranger) && world.questions.count == 2)
    }

    @Test("a package's presenter is asked about its members")
    func packages() {
        var world = ModelWorld()
        let app = world.client()
        let shown = world.presenter(of: app, 20)
        let cat = world.open(60, 500)
        #expect(world.questions.map(\.presenter) == [shown] && !world.isGranted(cat))
    }

    @Test("a requested save does not wait for requests behind the asking one")
    func savesPassTheQueue() throws {
        var world = ModelWorld()
        let app = world.client("editor", process: 50), other = world.client(), third = world.client()
        let shown = world.presenter(of: app, 7)
        let viewer = world.open(61, 7)
        world.answer(world.questions[0])
        #expect(world.isGranted(viewer))
        let reading = world.read(other, 7)
        let behind = world.write(third, 7)
        let saving = world.claim(.client(app), [(7, .writing(nil))], presenter: shown)
        #expect(world.isGranted(saving), "neither the viewer nor the queue holds it up")
        world.end(saving)
        world.answer(try #require(world.questions.last { $0.id > world.questions[0].id }))
        #expect(world.isGranted(reading) && !world.isGranted(behind))
    }
}
