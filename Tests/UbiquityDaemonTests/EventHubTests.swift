import Testing
import UbiquityControl
@testable import UbiquityDaemon

@Suite struct EventHubTests {
    private func event(_ number: Int) -> ControlEvent { ControlEvent(.itemChanged, time: Double(number)) }

    @Test func everyListenerGetsEveryEventInOrder() async throws {
        let hub = EventHub()
        let (_, first) = try #require(hub.listen())
        let (_, second) = try #require(hub.listen())
        for number in 0..<10 { hub.send(event(number)) }
        hub.close()
        for signals in [first, second] {
            var times = [Double]()
            for await signal in signals {
                if case .event(let event) = signal { times.append(event.time) }
            }
            #expect(times == (0..<10).map(Double.init))
        }
        #expect(hub.listen() == nil)
    }

    @Test func slowListenerGetsAnOverflowEvent() async throws {
        let hub = EventHub()
        let (number, signals) = try #require(hub.listen())
        #expect(!hub.takeLoss(of: number))
        for number in 0...EventHub.maximumWaiting { hub.send(event(number)) }
        #expect(hub.takeLoss(of: number))
        #expect(!hub.takeLoss(of: number))
        hub.forget(number)
        var count = 0
        for await _ in signals { count += 1 }
        #expect(count == EventHub.maximumWaiting)
        #expect(!hub.hasListeners)
    }

    @Test func listenersAreLimited() throws {
        let hub = EventHub()
        for _ in 0..<EventHub.maximumListeners { _ = try #require(hub.listen()) }
        #expect(hub.listen() == nil)
    }
}
