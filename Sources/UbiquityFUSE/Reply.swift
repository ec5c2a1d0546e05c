internal import CFUSE
internal import UbiquitySystem
internal import UbiquityVFS

/// The one answer to one request of the kernel.
///
/// Every path out of a callback consumes it. A dropped reply answers EIO, so that no program hangs. It may be consumed
/// on any thread.
struct Reply: ~Copyable, @unchecked Sendable {
    private let request: fuse_req_t
    /// Set while an interrupt would have an effect. Owned.
    private var interruption: Unmanaged<Interruption>?

    init(_ request: fuse_req_t) {
        self.request = request
        interruption = nil
    }

    deinit {
        Self.stopListening(request, interruption)
        fuse_reply_err(request, Errno.EIO.rawValue)
    }

    var caller: Caller {
        guard let context = fuse_req_ctx(request) else { return Caller(uid: 0, gid: 0, pid: 0) }
        return Caller(uid: context.pointee.uid, gid: context.pointee.gid, pid: context.pointee.pid)
    }

    private var context: SessionContext? { SessionContext.of(fuse_req_userdata(request)) }
    private var hasRings: Bool { context?.rings.areActive ?? false }
    var waitingCallers: WaitCounter<Int32>? { context?.served.current.waitingCallers }

    // MARK: Waiting

    /// From now on, interrupting the request cancels the task in `interruption`.
    ///
    /// The kernel reports a signal that came before the request was sent only through the device: fuse_dev_do_read
    /// checks for one, fuse_uring_prepare_send does not (Linux 6.18). The signal is still pending for the program, so
    /// it can be seen.
    /// - Parameter isRead: whether the request is a read. It may be a read-ahead that no program waits for; if it
    ///   failed, a program that maps the file would get a SIGBUS. So only a program that is being killed interrupts it
    ///   here.
    mutating func listen(to interruption: Interruption, isRead: Bool) {
        let owned = Unmanaged.passRetained(interruption)
        self.interruption = owned
        fuse_req_interrupt_func(request, interruptCallback, owned.toOpaque())
        guard hasRings else { return }
        if isRead ? ProcessTree.isDying(caller.pid) : ProcessTree.hasSignal(caller.pid) { interruption.interrupt() }
    }

    /// Removes the interrupt function. libfuse calls it under the request's lock, and removing it takes that lock.
    /// Afterwards it neither runs nor will run, so its argument can be released.
    private static func stopListening(_ request: fuse_req_t, _ interruption: Unmanaged<Interruption>?) {
        guard let interruption else { return }
        fuse_req_interrupt_func(request, nil, nil)
        interruption.takeRetainedValue().end()
    }

    // MARK: Answers

    /// Sends the answer by `send`, which returns libfuse's result: 0, or a negative errno if the kernel did not take
    /// it.
    /// - Returns: false if the request was interrupted and the kernel did not take the answer. Then whatever the answer
    ///   gave out (a handle, a lookup) must be taken back.
    @discardableResult
    consuming func send(_ send: (fuse_req_t) -> Int32) -> Bool { send(finish()) == 0 }

    /// The request; the caller must answer it now.
    private consuming func finish() -> fuse_req_t {
        let request = request
        Self.stopListening(request, interruption)
        discard self
        return request
    }

    consuming func error(_ error: Errno) { send { fuse_reply_err($0, error.rawValue) } }
    consuming func failure(_ error: any Error) { self.error(Errno(describing: error)) }
    consuming func done() { send { fuse_reply_err($0, 0) } }

    /// Ends a forget, which has no answer.
    consuming func none() {
        send {
            fuse_reply_none($0)
            return 0
        }
    }

    consuming func bytes(_ bytes: [UInt8]) {
        let request = finish()
        bytes.withUnsafeBytes { buffer in
            _ = fuse_reply_buf(request, buffer.baseAddress?.assumingMemoryBound(to: CChar.self), buffer.count)
        }
    }

    /// Answers with a range of a backing file, moved by splice where that is faster than copying. A ring takes no pipe.
    consuming func data(_ data: FileData) {
        var vector = fuse_bufvec()
        vector.count = 1
        vector.buf.size = data.length
        vector.buf.flags = fuse_buf_flags(FUSE_BUF_IS_FD.rawValue | FUSE_BUF_FD_SEEK.rawValue)
        vector.buf.fd = data.descriptor.rawValue
        vector.buf.pos = off_t(data.offset)
        let hasRings = hasRings
        let request = finish()
        let flags = fuse_buf_copy_flags(hasRings ? FUSE_BUF_NO_SPLICE.rawValue : 0)
        withExtendedLifetime(data.descriptor) { _ = fuse_reply_data(request, &vector, flags) }
    }

    consuming func written(_ count: Int) { send { fuse_reply_write($0, count) } }
    consuming func offset(_ offset: Int64) { send { fuse_reply_lseek($0, off_t(offset)) } }

    /// Answers with the value of an attribute, or with its length if the program asked for that (room 0). ERANGE if it
    /// does not fit.
    consuming func attribute(_ value: [UInt8], room: Int) {
        if room == 0 {
            send { fuse_reply_xattr($0, value.count) }
        } else if value.count > room {
            error(.ERANGE)
        } else {
            bytes(value)
        }
    }
}

/// Cancels the task of a waiting request when the request is interrupted.
///
/// The kernel reports only the first signal, of whatever kind. A signal that is not meant to end the call does not:
/// `open` is not among the calls that a stopped job or a timer makes fail. From then on later signals are polled for,
/// until the call is over.
final class Interruption: Sendable {
    private struct State {
        var isInterrupted = false
        var isOver = false
        var task: Task<Void, Never>?
        var watch: Task<Void, Never>?
    }
    /// Interval of polling for a Ctrl-C after a harmless signal; a person does not notice it.
    private static let interval = Duration.milliseconds(50)

    private let state = Lock(State())
    private let caller: Int32

    /// - Parameter caller: the waiting thread; 0 if it is not visible from here.
    init(caller: Int32) { self.caller = caller }

    /// Sets the task to cancel. Cancels it at once if the interrupt came before.
    func cancels(_ task: Task<Void, Never>) {
        let isInterrupted = state.withLock {
            $0.task = task
            return $0.isInterrupted
        }
        if isInterrupted { task.cancel() }
    }

    func interrupt() {
        if ProcessTree.hasSignalToEnd(caller) { return cancel() }
        state.withLock { state in
            guard !state.isOver, state.watch == nil else { return }
            state.watch = Task.detached { [self] in
                while (try? await Sleepers.shared.sleep(for: Self.interval)) != nil {
                    if ProcessTree.hasSignalToEnd(caller) { return cancel() }
                }
            }
        }
    }

    private func cancel() {
        let task = state.withLock {
            $0.isInterrupted = true
            return $0.task
        }
        task?.cancel()
    }

    /// Ends the polling when the call is over.
    func end() {
        let watch = state.withLock { state in
            state.isOver = true
            return state.watch
        }
        watch?.cancel()
    }
}

private func interruptCallback(_ request: fuse_req_t?, _ data: UnsafeMutableRawPointer?) {
    guard let data else { return }
    Unmanaged<Interruption>.fromOpaque(data).takeUnretainedValue().interrupt()
}
