internal import CUbiquityShims
internal import Glibc

/// A thread for work that blocks for long or must not be held up by other work.
enum DedicatedThread {
    /// Starts it; it ends with `body`.
    /// - Parameter name: at most 15 bytes are shown by ps and debuggers.
    static func start(name: String, _ body: @escaping @Sendable () -> Void) {
        // No thread to be had: the work is done here rather than not at all.
        if !startIfPossible(name: name, body) { body() }
    }

    /// The same.
    /// - Returns: false if there is no thread to be had.
    static func startIfPossible(name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
        let box = Unmanaged.passRetained(Box(name: name, body: body))
        var thread = pthread_t()
        guard pthread_create(&thread, nil, threadMain, box.toOpaque()) == 0 else {
            box.release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    fileprivate final class Box: Sendable {
        let name: String
        let body: @Sendable () -> Void
        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
}

private func threadMain(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let argument else { return nil }
    let box = Unmanaged<DedicatedThread.Box>.fromOpaque(argument).takeRetainedValue()
    CUbiquity_nameThread(box.name)
    box.body()
    return nil
}
