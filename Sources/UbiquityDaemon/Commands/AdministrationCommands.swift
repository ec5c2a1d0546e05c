import Logging
import UbiquityControl
import UbiquityCore
import UbiquityDoctor
import UbiquitySync
import UbiquitySystem

/// Commands on the mount as a whole: connection, log, deletions on hold, and `doctor`.
struct AdministrationCommands: MountCommand {
    let parts: MountParts

    func setOffline(_ offline: Bool) async throws {
        engine.setPaused(offline)
        guard !offline else { return }
        parts.embeddedCloud?.forgetFailures()
        engine.retryNow()
    }

    func setLog(_ wanted: LogRequest) throws -> LogReport {
        if let name = wanted.level {
            guard let level = Logger.Level(rawValue: name) else {
                throw UbiquityError(
                    .invalid, "\"\(name.prefix(80))\" is not a log level",
                    remedy: "one of \(Logger.Level.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            // The log itself records why it becomes less detailed from here on.
            parts.log.level = min(level, parts.log.level)
            parts.logger.notice("the log's level was set", metadata: ["level": "\(level)"])
            parts.log.level = level
        }
        return LogReport(level: parts.log.level.rawValue, file: parts.log.path)
    }

    func decideDeletions(_ wanted: DeletionsRequest) async throws -> DeletionsReport {
        try await pool.run { [engine] in
            switch wanted.decision {
            case .confirm: DeletionsReport(items: try engine.confirmDeletions())
            case .undo: DeletionsReport(items: try engine.undoDeletions())
            }
        }
    }

    /// Examines a container while it is mounted.
    func examine(_ wanted: DoctorRequest) async throws -> DoctorReport {
        let diagnosis = try await Examiner(engine).examine(
            ExaminationOptions(repairs: !wanted.check, readsAll: !wanted.quick, isAlone: false))
        return DoctorReport(diagnosis)
    }
}
