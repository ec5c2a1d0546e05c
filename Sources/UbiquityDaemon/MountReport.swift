import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// One line from a daemon to the process that started it, over a pipe: how far the first listing is, and in the end
/// that the mount is usable or why it is not.
struct MountReport: Codable, Hashable, Sendable {
    var failure: ControlFailure?
    /// Lines for the person.
    var notices: [String]?
    /// Items listed so far. A message with this only reports progress; others follow.
    var listedItems: Int64?

    init(listedItems: Int64) { self.listedItems = listedItems }

    init(failure: ControlFailure? = nil, notices: [String]? = nil) {
        self.failure = failure
        self.notices = notices
    }

    /// Of a mount that has ended before anything was told of it: it was there, unless the kernel would not have it.
    init(of outcome: Result<Void, any Error>, notices: [String]) {
        switch outcome {
        case .success: self.init(notices: notices)
        case .failure(let error):
            self.init(failure: ControlFailure(error as? UbiquityError ?? UbiquityError(.io, "cannot mount: \(error)")))
        }
    }

    /// Bytes of a report: a failure in a few lines.
    static let maximumLength = 64 * 1024

    /// Takes the pipe that the starting process left open for us. To be called once.
    static func pipe() -> FileDescriptor { FileDescriptor(owning: DetachedProcess.reportDescriptor) }

    func send(over pipe: FileDescriptor) throws(UbiquityError) {
        let bytes = try ControlCodec.encode(self) + [UInt8(ascii: "\n")]
        do throws(Errno) { try pipe.write(bytes) } catch {
            // Whoever started us has gone; the mount is there all the same.
            guard error == .EPIPE else { throw UbiquityError(error, doing: "report to the starting process") }
        }
    }
}
