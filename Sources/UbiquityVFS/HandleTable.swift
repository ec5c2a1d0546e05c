internal import UbiquitySystem

/// Handles that the kernel holds: numbers for open files and open directories.
///
/// Lock order: a leaf. A number is used once; the kernel releases each exactly once.
final class HandleTable<Object: Sendable>: Sendable {
    private struct State {
        var next: UInt64 = 1
        var objects: [UInt64: Object] = [:]
    }
    private let state = Lock(State())

    func add(_ object: Object) -> UInt64 {
        state.withLock { state in
            let handle = state.next
            state.next += 1
            state.objects[handle] = object
            return handle
        }
    }

    /// Throws EBADF for an unknown or released number.
    func object(_ handle: UInt64) throws(Errno) -> Object {
        guard let object = state.withLock({ $0.objects[handle] }) else { throw .EBADF }
        return object
    }

    func remove(_ handle: UInt64) -> Object? { state.withLock { $0.objects.removeValue(forKey: handle) } }

    var count: Int { state.withLock { $0.objects.count } }
    var entries: [UInt64: Object] { state.withLock { $0.objects } }
    var all: [Object] { state.withLock { Array($0.objects.values) } }
}
