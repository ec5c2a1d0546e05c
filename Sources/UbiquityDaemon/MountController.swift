import UbiquityControl
import UbiquityCore
import UbiquitySystem

final class MountController: Sendable {
    let events = EventHub()
    func status() async throws -> MountStatus { throw UbiquityError(.io, "") }
    func itemStatus(_ paths: [String]) -> AsyncThrowingStream<ItemResult, any Error> { AsyncThrowingStream { nil } }
    func download(_ paths: [String]) -> AsyncThrowingStream<ItemResult, any Error> { AsyncThrowingStream { nil } }
    func evict(_ paths: [String]) -> AsyncThrowingStream<ItemResult, any Error> { AsyncThrowingStream { nil } }
    func setPinned(_ pinned: Bool, _ paths: [String]) -> AsyncThrowingStream<ItemResult, any Error> { AsyncThrowingStream { nil } }
    func setOffline(_ offline: Bool) async throws {}
    func wait(_ wanted: WaitRequest) async throws -> WaitReport { WaitReport(done: true) }
    func stop(_ wanted: StopRequest) async throws -> StopReport { throw UbiquityError(.io, "") }
    func event(_ kind: ControlEvent.Kind) -> ControlEvent { ControlEvent(kind, time: 0) }
}
