internal import CFUSE
internal import Glibc
package import Logging
internal import Synchronization
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityVFS

/// A container mounted in the kernel.
///
/// The initializer mounts; requests that arrive before `run()` wait for it. `run()` serves until the mount is gone, by
/// `stop()`, by `umount`, or because the connection broke.
package final class FUSESession: Sendable {
    package struct Configuration: Sendable {
        /// An absolute path without symlinks (`MountPoint.check`, `MountPoint.real`).
        package var mountPoint: String
        /// The mount's source: the state folder, by which the command line finds the daemon.
        package var source: String
        /// Options a user passed with `-o`, e.g. "allow_other".
        package var options: [String]

        package init(mountPoint: String, source: String, options: [String] = []) {
            self.mountPoint = mountPoint
            self.source = source
            self.options = options
        }
    }

    /// Threads that take requests. They never wait for the network, only for the disk. With more threads than cores,
    /// some serve while others are in fsync.
    private static let maximumThreads: UInt32 = 16
    /// How long programs may keep using files of the mount after it is detached.
    private static let graceAfterDetach: Duration = .seconds(3)
    /// An unmount or notification that takes longer hangs; then the connection is aborted.
    private static let hangLimit: Duration = .seconds(10)

    private struct State {
        var isStopping = false
        var hasEnded = false
        /// Whether a ring thread has not ended. The objects it uses must stay alive then.
        var hasStray = false
        /// The thread in libfuse's loop.
        var loop: LoopThread?
    }

    // libfuse guards the session itself. The session is destroyed when no thread can reach it any more.
    private nonisolated(unsafe) let session: OpaquePointer
    private let context: Unmanaged<SessionContext>
    private let configuration: Configuration
    private let notifier: KernelNotifier
    private let passthrough: KernelPassthrough
    private let rings: RequestRings
    private let connection: FUSEConnection?
    private let replayer: Replayer?
    private let logger: Logger
    private let state = Monitor(State())

    /// Mounts the container. The mount point must have passed `MountPoint.check`; otherwise the new mount may cover
    /// another one.
    package init(
        fileSystem: ClaimedFileSystem, notifier: KernelNotifier, passthrough: KernelPassthrough,
        rings: RequestRings, configuration: Configuration, logger: Logger
    ) throws(UbiquityError) {
        self.configuration = configuration
        self.notifier = notifier
        self.passthrough = passthrough
        self.rings = rings
        self.logger = logger
        context = Unmanaged.passRetained(SessionContext(fileSystem: fileSystem, passthrough: passthrough, rings: rings))
        do throws(UbiquityError) {
            session = try Self.makeSession(configuration, context)
        } catch {
            context.release()
            throw error
        }
        connection = (try? MountedFileSystem.at(configuration.mountPoint)).flatMap { $0 }
            .map { FUSEConnection(number: $0.deviceMinor) }
        replayer = Replayer(
            replays: fileSystem.replays, mountPoint: configuration.mountPoint, device: connection?.number,
            logger: logger)
        rings.attach(session, context) { [weak self] error in
            guard let session = self else { return }
            // On a thread of its own: ending the connection requires the failed thread to end.
            DedicatedThread.start(name: "ring-failure") { session.endAfterFailure(error) }
        }
        notifier.start(session: session)
        replayer?.start()
    }

    deinit {
        passthrough.end()
        guard !state.withLock({ $0.hasStray }) else { return }
        fuse_session_destroy(session)
        context.release()
    }

    /// Serves the kernel on its own threads until the mount is gone. Blocks the calling thread, which must not belong
    /// to Swift's cooperative pool.
    package func run() throws(UbiquityError) {
        raiseReadAhead()
        let loop = fuse_loop_cfg_create()
        defer { fuse_loop_cfg_destroy(loop) }
        // Use one descriptor for all requests: a passthrough handle is registered on it (see `Handshake`).
        fuse_loop_cfg_set_clone_fd(loop, 0)
        fuse_loop_cfg_set_max_threads(loop, Self.maximumThreads)
        state.withLock { $0.loop = LoopThread.current() }
        let result = fuse_session_loop_mt(session, loop)
        endRings()
        state.withLock {
            $0.loop = nil
            $0.hasEnded = true
        }
        state.broadcast()
        replayer?.end()
        endNews()
        unmountLeftover()
        let wasStopped = state.withLock { $0.isStopping }
        // ENODEV means an unmount by any process; ECONNABORTED and the like come from an abort during `stop`.
        if result != 0, result != -Errno.ENODEV.rawValue, !wasStopped {
            throw UbiquityError(Errno(rawValue: abs(result)), doing: "serve the mount", at: configuration.mountPoint)
        }
    }

    /// Makes `run()` return: unmounts, if necessary while programs use the mount. Returns at once. May be called from
    /// any thread and repeatedly.
    package func stop() {
        let isFirst = state.withLock { state in
            defer { state.isStopping = true }
            return !state.isStopping
        }
        guard isFirst else { return }
        DedicatedThread.start(name: "unmount") { [self] in unmount() }
        DedicatedThread.start(name: "unmount-watch") { [self] in abortIfHanging() }
    }

    // MARK: The container

    /// The file system that the session serves.
    private var fileSystem: ClaimedFileSystem { context.takeUnretainedValue().served.current }

    /// How long programs that watch the mount may take to see the items of the old container leave.
    private static let announcementLimit = Duration.milliseconds(400)

    /// Serves another container from now on. Programs see its top folder in the place of the old one. Inodes of the old
    /// one answer ESTALE; files that are open stay readable. Blocks for up to half a second. Call it for one exchange
    /// at a time.
    /// - Parameter next: a file system with the next numbers (`NodeNumbers.next`).
    package func exchange(_ next: ClaimedFileSystem) {
        let old = fileSystem, served = context.takeUnretainedValue().served
        if replayer != nil {
            let mark = old.exchange.announceRemoval(), end = ContinuousClock.now + Self.announcementLimit
            while !old.replays.isOver(mark), ContinuousClock.now < end { ProcessLock.pause(milliseconds: 2) }
        }
        let files = old.exchange.departedFiles()
        if let replayer {
            replayer.exchange(next.replays) { served.exchange(next, leaving: files) }
        } else {
            served.exchange(next, leaving: files)
        }
        old.exchange.invalidate()
        next.exchange.announceArrival()
    }

    // MARK: Ending

    private func unmount() {
        let mountPoint = Array(configuration.mountPoint.utf8)
        do throws(Errno) {
            try fileSystem.replays.paused { () throws(Errno) in try Unmounting.unmount(mountPoint, lazy: false) }
        } catch {
            guard error == .EBUSY else { return unmountFailed(error) }
            logger.info("the mount is in use; its users have a moment to close their files")
            do throws(Errno) { try Unmounting.unmount(mountPoint, lazy: true) } catch { return unmountFailed(error) }
        }
        // The connection lasts as long as a program has a file open, or another mount namespace (a container's) has a
        // copy of the mount.
        if waitForEnd(atMost: Self.graceAfterDetach) { return }
        logger.info("the mount is still in use; ending the connection")
        abort()
    }

    private func unmountFailed(_ error: Errno) {
        // EINVAL: the path is no longer a mount, so the loop ends by itself.
        guard error != .EINVAL else { return }
        logger.error("cannot unmount", metadata: ["mount point": "\(configuration.mountPoint)", "error": "\(error)"])
        abort()
    }

    /// The watchdog: aborts an unmount that would wait forever, because it waits for a program that waits for this
    /// process.
    private func abortIfHanging() {
        if !waitForEnd(atMost: Self.hangLimit) {
            logger.error("the unmount hangs; aborting the connection")
            abort()
        }
    }

    private func waitForEnd(atMost limit: Duration) -> Bool {
        state.wait(atMost: limit) { $0.hasEnded ? true : nil } ?? false
    }

    /// Ends the connection with fusectl. Where that is missing (not every container mounts the fusectl file system),
    /// leaves the loop; the connection then ends with the session's descriptor.
    private func abort() {
        fuse_session_exit(session)
        do throws(Errno) { try connection?.abort() } catch {
            logger.debug("cannot abort by fusectl; leaving the loop", metadata: ["error": "\(error)"])
        }
        for _ in 0..<Self.wakeAttempts where !waitForEnd(atMost: Self.wakeInterval) {
            state.withLock { state in state.loop.map(LoopThread.interrupt) }
        }
    }

    /// A signal just before the loop's thread begins to wait is lost, so several are sent.
    private static let wakeAttempts = 50
    private static let wakeInterval: Duration = .milliseconds(100)

    private func endAfterFailure(_ error: Errno) {
        logger.error("requests cannot be answered any more; ending the connection", metadata: ["error": "\(error)"])
        abort()
    }

    private func endRings() {
        if rings.end() { return }
        logger.error("a thread that serves requests hangs")
        state.withLock { $0.hasStray = true }
    }

    private func endNews() {
        notifier.close()
        if notifier.waitUntilClosed(atMost: Self.hangLimit) { return }
        logger.error("a notification hangs; aborting the connection")
        abort()
        _ = notifier.waitUntilClosed(atMost: Self.hangLimit)
    }

    /// Removes the mount that an aborted connection leaves.
    private func unmountLeftover() {
        guard let mount = try? MountedFileSystem.at(configuration.mountPoint), mount.deviceMinor == connection?.number
        else { return }
        do throws(Errno) { try Unmounting.unmount(Array(configuration.mountPoint.utf8), lazy: true) } catch {
            logger.error("cannot clear the mount", metadata: ["error": "\(error)"])
        }
    }

    // MARK: Beginning

    private func raiseReadAhead() {
        do throws(Errno) { try connection?.setReadAhead(bytes: Int(Handshake.maximumRequest)) } catch {
            logger.debug("read-ahead stays at the kernel's default", metadata: ["error": "\(error)"])
        }
    }

    private static func makeSession(
        _ configuration: Configuration, _ context: Unmanaged<SessionContext>
    ) throws(UbiquityError) -> OpaquePointer {
        let session = try SessionMount.make(configuration) { () throws(UbiquityError) in
            try newSession(configuration, context)
        }
        var io = makeSessionIO()
        let result = fuse_session_custom_io(session, &io, fuse_session_fd(session))
        guard result == 0 else {
            fuse_session_destroy(session)
            // libfuse knows another path: a descriptor's, or the folder from which the mount was moved beneath a dead
            // one.
            try MountPoint.clearDead(configuration.mountPoint, source: configuration.source)
            throw UbiquityError(Errno(rawValue: abs(result)), doing: "open the connection to the kernel")
        }
        return session
    }

    private static func newSession(
        _ configuration: Configuration, _ context: Unmanaged<SessionContext>
    ) throws(UbiquityError) -> OpaquePointer {
        var operations = makeOperations()
        let session = withArguments(arguments(configuration)) { arguments in
            fuse_session_new(arguments, &operations, MemoryLayout<fuse_lowlevel_ops>.size, context.toOpaque())
        }
        guard let session else {
            throw UbiquityError(
                .invalid, "cannot mount: libfuse does not take these options",
                at: configuration.options.joined(separator: ","))
        }
        return session
    }

    /// libfuse's command line. A comma or backslash in a value is escaped with a backslash.
    static func arguments(_ configuration: Configuration) -> [String] {
        let source = configuration.source.replacing("\\", with: "\\\\").replacing(",", with: "\\,")
        var arguments = ["ubiquity", "-o", "fsname=\(source)", "-o", "subtype=ubiquity", "-o", "default_permissions"]
        for option in configuration.options { arguments += ["-o", option] }
        return arguments
    }

    private static func withArguments<R>(
        _ texts: [String], _ body: (UnsafeMutablePointer<fuse_args>) -> R
    ) -> R {
        var pointers: [UnsafeMutablePointer<CChar>?] = texts.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        return pointers.withUnsafeMutableBufferPointer { buffer in
            var arguments = fuse_args(argc: Int32(texts.count), argv: buffer.baseAddress, allocated: 0)
            // Parsing may replace the list with one of libfuse's own.
            defer { fuse_opt_free_args(&arguments) }
            return body(&arguments)
        }
    }
}
