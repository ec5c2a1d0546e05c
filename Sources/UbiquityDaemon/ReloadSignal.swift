import Dispatch
import UbiquitySystem

/// Calls back on SIGHUP. An administrator sends this signal to make a server read its files again.
final class ReloadSignal: Sendable {
    // Set once, here; a dispatch source may be used from any thread.
    private nonisolated(unsafe) let source: any DispatchSourceSignal

    init(_ handler: @escaping @Sendable () -> Void) {
        ProcessHost.ignoreSignals([SignalNumber.hangUp])
        source = DispatchSource.makeSignalSource(
            signal: SignalNumber.hangUp, queue: DispatchQueue(label: "reload"))
        source.setEventHandler(handler: handler)
        source.resume()
    }
}
