import Dispatch
import Testing
@testable import UbiquityDaemon
import UbiquitySystem

@Suite(.timeLimit(.minutes(1))) struct HeldIndexGuardTests {
    private struct Broken: Error {}

    @Test func indexThatDoesNotAnswerEndsTheProcess() async throws {
        let (ends, source) = AsyncStream.makeStream(of: Void.self)
        let turn = Monitor(false)
        let guardian = HeldIndexGuard {
            turn.wait { $0 ? () : nil }
        } onHeld: {
            source.yield()
        }
        guardian.start(limit: .milliseconds(20))
        for await _ in ends { break }
        turn.withLock { $0 = true }
        turn.signal()
    }

    @Test(arguments: [true, false]) func indexThatAnswersEndsNothing(isBroken: Bool) async throws {
        let (ends, source) = AsyncStream.makeStream(of: String.self)
        let guardian = HeldIndexGuard {
            source.yield("answered")
            if isBroken { throw Broken() }
        } onHeld: {
            source.yield("held")
        }
        guardian.start(limit: .milliseconds(500))
        // A second guard, whose index is held, shows that the first one's time is over.
        let turn = Monitor(false)
        let later = HeldIndexGuard { turn.wait { $0 ? () : nil } } onHeld: { source.yield("end") }
        later.start(limit: .milliseconds(700))
        var news = [String]()
        for await word in ends {
            if word == "end" { break }
            news.append(word)
        }
        turn.withLock { $0 = true }
        turn.signal()
        #expect(news == ["answered"])
    }
}
