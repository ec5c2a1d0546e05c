import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// One line from a daemon to the process that started it, over a pipe: the progress of the first listing, and finally
/// that the mount is usable or why it is not.
struct MountReport: Codable, Hashable, Sendable {
    var failure: ControlFailure?
    /// Notices for the user.
    var notices: [String]?
    /// Items listed so far. A message with this only reports progress; others follow.
    var listedItems: Int64?

    init(listedItems: Int64) { self.listedItems = listedItems }

    init(failure: ControlFailure? = nil, notices: [String]? = nil) {
        self.failure = failure
        self.notices = notices
    }

    /// The report of a mount that ended before any report: a success means that it was usable.
    init(of outcome: Result<Void, any Error>, notices: [String]) {
        switch outcome {
        case .success: self.init(notices: notices)
        case .failure(let error):
            self.init(failure: ControlFailure(error as? UbiquityError ?? UbiquityError(.io, "cannot mount: \(error)")))
        }
    }

    /// In bytes: a failure takes a few lines.
    static let maximumLength = 64 * 1024

    /// The pipe that the starting process left open for this one. Call it once.
    static func pipe() -> FileDescriptor { FileDescriptor(owning: DetachedProcess.reportDescriptor) }

    func send(over pipe: FileDescriptor) throws(UbiquityError) {
        let bytes = try ControlCodec.encode(self) + [UInt8(ascii: "\n")]
        do throws(Errno) { try pipe.write(bytes) } catch {
            // The starting process has gone; the mount is usable nevertheless.
            guard error == .EPIPE else { throw UbiquityError(error, doing: "report to the starting process") }
        }
    }
}
