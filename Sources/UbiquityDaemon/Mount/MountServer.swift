import Dispatch
import Logging
import UbiquityControl
import UbiquityCore
import UbiquityFUSE
import UbiquityIndex
import UbiquitySync
import UbiquitySystem
import UbiquityVFS

/// The process that serves a mount, from start to end.
package enum MountServer {
    /// The argument of the replay process, and its main function.
    package static let replayArgument = ReplayProcess.argument
    package static func replay(_ arguments: [String]) -> Int32 { ReplayProcess.run(arguments) }

    /// How long a new device's mount waits for its first listing, so that its folder is not shown empty. A few thousand
    /// items take a fraction of it. A container of millions fills while it is in use, because a mount must be usable
    /// within a second.
    private static let firstListingLimit = Duration.milliseconds(800)

    /// Mounts, reports, and serves until the mount is gone.
    /// - Parameter reporting: whether another process started this one in the background and waits for a report.
    package static func run(_ settings: MountSettings, reporting: Bool) async throws {
        ProcessHost.keepNewFilesPrivate()
        let pipe = reporting ? MountReport.pipe() : nil
        let logger: Logger
        let mount: Mount
        let signals: TerminationSignals
        do {
            try ProcessHost.raiseOpenFileLimit()
            var settings = settings
            let folder = try MountLauncher.containerFolder(settings)
            let log = LogFile(path: reporting ? folder.log : nil)
            logger = log.logger()
            settings.mountPoint = try MountLauncher.preflight(settings)
            settings.options = try MountOptions.accepted(settings.options)
            if let refusal = try RememberedAccess(folder).refusal() {
                logger.warning("the mount is read-only: \(refusal)")
                if !settings.options.contains("ro") { settings.options.append("ro") }
            }
            mount = try await Mount(settings, logger: logger, log: log)
            signals = TerminationSignals { mount.terminate() }
        } catch {
            let failure = error as? UbiquityError ?? UbiquityError(.io, "cannot mount: \(error)")
            try pipe.map { try MountReport(failure: ControlFailure(failure)).send(over: $0) }
            throw failure
        }
        logger.notice(
            "mounted", metadata: [
                "mount point": "\(mount.parts.settings.mountPoint)", "container": "\(settings.container)",
                "device": "\(mount.parts.identity.name)", "version": "\(ProgramVersion.text)",
            ])
        for notice in mount.parts.notices { logger.warning("\(notice)") }
        let service = mount.service.map { service in
            Task {
                if !mount.parts.fileSystem.isVacant {
                    await mount.parts.engine.status.awaitFirstListing(atMost: Self.firstListingLimit)
                }
                if !Task.isCancelled { service.ready() }
            }
        }
        let report = pipe.map { pipe in
            Task {
                let progress = Task { try await Self.reportListing(of: mount.parts, over: pipe) }
                if !mount.parts.fileSystem.isVacant {
                    await mount.parts.engine.status.awaitFirstListing(atMost: Self.firstListingLimit)
                }
                progress.cancel()
                // The pipe carries one message after the other. An error only ends the progress reports.
                _ = await progress.result
                guard !Task.isCancelled else { return false }
                Self.send(MountReport(notices: mount.parts.notices), over: pipe, logger)
                return true
            }
        }
        let outcome: Result<Void, any Error>
        do { outcome = .success(try await mount.run()) } catch { outcome = .failure(error) }
        report?.cancel()
        service?.cancel()
        if let pipe, await report?.value == false {
            Self.send(MountReport(of: outcome, notices: mount.parts.notices), over: pipe, logger)
        }
        try outcome.get()
        logger.notice("unmounted and ended")
        withExtendedLifetime(signals) {}
    }

    /// Interval of progress reports about the first listing.
    private static let listingInterval = Duration.milliseconds(150)

    /// Reports until the task is cancelled.
    private static func reportListing(of parts: MountParts, over pipe: FileDescriptor) async throws {
        while true {
            try await parts.timekeeper.sleep(for: listingInterval)
            let count = try await parts.pool.run { [index = parts.index] in try index.read { try $0.itemCount() } }
            try MountReport(listedItems: count).send(over: pipe)
        }
    }

    private static func send(_ report: MountReport, over pipe: FileDescriptor, _ logger: Logger) {
        do { try report.send(over: pipe) } catch {
            logger.error("cannot report to the starting process: \(error)")
        }
    }
}

/// Calls back when the process is asked to end (SIGTERM, SIGINT). A closed terminal (SIGHUP) does not end it.
final class TerminationSignals: Sendable {
    // Set once, here; a dispatch source may be used from any thread.
    private nonisolated(unsafe) let sources: [any DispatchSourceSignal]

    init(_ handler: @escaping @Sendable () -> Void) {
        ProcessHost.ignoreSignals([SignalNumber.terminate, SignalNumber.interrupt, SignalNumber.hangUp])
        let queue = DispatchQueue(label: "signals")
        sources = [SignalNumber.terminate, SignalNumber.interrupt].map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            source.setEventHandler(handler: handler)
            source.resume()
            return source
        }
    }
}
