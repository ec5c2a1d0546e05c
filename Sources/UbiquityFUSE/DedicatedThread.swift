internal import CUbiquityShims
internal import Glibc

/// A thread for work that blocks for long or that other work must not delay.
enum DedicatedThread {
    /// Starts the thread; it ends with `body`.
    /// - Parameter name: ps and debuggers show at most 15 bytes.
    static func start(name: String, _ body: @escaping @Sendable () -> Void) {
        // If no thread can be created, do the work here.
        if !startIfPossible(name: name, body) { body() }
    }

    /// The same without a fallback.
    /// - Returns: false if no thread can be created.
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
