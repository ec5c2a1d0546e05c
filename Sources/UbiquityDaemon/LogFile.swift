import Logging
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// The log of a process without a terminal: lines on standard error. A full file is set aside, so that both take at
/// most twice `maximumSize`.
final class LogFile: Sendable {
    /// In bytes; some 50,000 lines.
    static let maximumSize: Int64 = 8 * 1024 * 1024

    private struct State {
        var size: Int64
    }

    /// Nil in the foreground: standard error is the user's.
    let path: String?
    private let state: Lock<State>
    private let leastLevel: Lock<Logger.Level>

    /// The least important level that is written. It can change at any time, for all loggers.
    var level: Logger.Level {
        get { leastLevel.withLock { $0 } }
        set { leastLevel.withLock { $0 = newValue } }
    }

    /// - Parameter path: of standard error, so that a full file can be set aside; nil for a terminal.
    init(path: String?, level: Logger.Level = LineLogHandler.wantedLevel) {
        self.path = path
        leastLevel = Lock(level)
        // An unknown size only delays the first rotation.
        state = Lock(State(size: path.flatMap { try? FileSystem.status($0).size } ?? 0))
    }

    /// Opens a log to append to, for a process that is about to start.
    static func open(_ path: String) throws(UbiquityError) -> FileDescriptor {
        try describing("open the log", at: path) { () throws(Errno) in
            try FileDescriptor.open(path, [.writeOnly, .create, .append])
        }
    }

    /// A logger that writes to it.
    func logger() -> Logger { Logger(label: "ubiquity") { LineLogHandler(label: $0, file: self) } }

    func write(_ line: String) {
        let length = Int64(line.utf8.count)
        state.withLock { state in
            state.size += length
            if let path, state.size > Self.maximumSize, rotate(path) { state.size = length }
            ProcessHost.write(line, to: 2)
        }
    }

    /// Renames the full file to `….1`, replacing the previous one, and opens a new one as standard error.
    private func rotate(_ path: String) -> Bool {
        do {
            // The file may have been set aside before, when no new one could be opened.
            do throws(Errno) { try FileSystem.rename(path, to: path + ".1") } catch {
                guard error == .ENOENT else { throw error }
            }
            try StandardStreams.redirectOutput(to: Self.open(path))
            return true
        } catch {
            ProcessHost.write(PlainText.escaped("the log cannot be set aside: \(error)") + "\n", to: 2)
            return false
        }
    }
}

/// Writes swift-log's messages to a `LogFile`, one line each.
struct LineLogHandler: LogHandler {
    var metadata = Logger.Metadata()
    /// The file's level, unless a part of the program has its own.
    var logLevel: Logger.Level {
        get { ownLevel ?? file.level }
        set { ownLevel = newValue }
    }
    private var ownLevel: Logger.Level?
    private let label: String
    private let file: LogFile

    init(label: String, file: LogFile) {
        self.label = label
        self.file = file
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let all = metadata.merging(event.metadata ?? [:]) { _, new in new }
        let text = Self.text("\(event.message)", all)
        file.write("\(Self.time()) \(event.level) \(label): \(text)\n")
    }

    /// One line, whatever names and foreign messages contain.
    static func text(_ message: String, _ metadata: Logger.Metadata) -> String {
        let details = metadata.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        return PlainText.escaped(message + details)
    }

    /// "2026-11-20T10:11:12.345Z".
    private static func time() -> String { CivilTime.text(SystemTimekeeper().now()) }

    /// The level that `UBIQUITY_LOG` names (trace, debug, info, notice, warning, error, critical); else "info".
    static var wantedLevel: Logger.Level {
        ProcessHost.variable("UBIQUITY_LOG").flatMap { Logger.Level(rawValue: $0.lowercased()) } ?? .info
    }
}
