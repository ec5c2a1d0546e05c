internal import CUbiquityShims
internal import Glibc
internal import UbiquityCore
package import UbiquitySystem
package import UbiquityVFS

/// Registers backing files with the kernel (Linux 6.9 and later), if the kernel allows it to this process.
package final class KernelPassthrough: Passthrough {
    private struct State {
        /// The session's descriptor, from its first message to its end.
        var session: Int32?
        var timesTellAll = false
        /// Why passthrough is off; nil if it is on.
        var refusal: String? = "the mount is still starting"
    }
    private let state: Lock<State>
    /// False if the configuration turns it off.
    let isWanted: Bool
    /// Returns a backing file for a trial.
    private let sample: @Sendable () throws -> FileDescriptor

    /// - Parameters:
    ///   - refusal: why passthrough is turned off; nil if it is wanted.
    ///   - sample: creates an empty file in the folder of the backing files.
    package init(refusal: String?, sample: @escaping @Sendable () throws -> FileDescriptor) {
        isWanted = refusal == nil
        var begin = State()
        if let refusal { begin.refusal = refusal }
        state = Lock(begin)
        self.sample = sample
    }

    package var isActive: Bool { state.withLock { $0.refusal == nil } }
    package var timesTellAll: Bool { state.withLock { $0.timesTellAll } }

    /// Why the kernel does not serve files directly; nil if it does.
    package var refusal: String? { state.withLock { $0.refusal } }

    package func register(_ file: FileDescriptor) -> BackingID? {
        guard let session = state.withLock({ $0.refusal == nil ? $0.session : nil }) else { return nil }
        let number = CUbiquity_backingOpen(session, file.rawValue)
        return number > 0 ? BackingID(rawValue: number) : nil
    }

    package func unregister(_ id: BackingID) {
        guard let session = state.withLock({ $0.session }) else { return }
        // It fails for an unknown number; after the end of a connection all numbers are unknown.
        _ = CUbiquity_backingClose(session, UInt32(bitPattern: id.rawValue))
    }

    // MARK: The session

    /// Records that the kernel does not offer passthrough.
    func isMissing() { refuse("the kernel does not offer it (it came with Linux 6.9)") }

    /// Tries passthrough with a sample file, once the kernel has accepted the session's answer.
    func begin(session: Int32) {
        guard isWanted else { return }
        do {
            let (file, reader) = try makeSample()
            let number = CUbiquity_backingOpen(session, reader.rawValue)
            guard number > 0 else { return refuse(Self.reason(Errno(rawValue: errno))) }
            _ = CUbiquity_backingClose(session, UInt32(bitPattern: number))
            let timesTellAll = try Self.timesTellAll(of: file)
            state.withLock { state in
                state.session = session
                state.timesTellAll = timesTellAll
                state.refusal = nil
            }
        } catch {
            refuse("the file system of the state folder does not allow it: \(error)")
        }
    }

    /// Ends passthrough before the session's descriptor is closed.
    func end() {
        state.withLock { state in
            state.session = nil
            state.refusal = state.refusal ?? "the mount has ended"
        }
    }

    private func refuse(_ reason: String) { state.withLock { if isWanted { $0.refusal = reason } } }

    private static func reason(_ error: Errno) -> String {
        switch error {
        case .EPERM: "this process lacks the capability CAP_SYS_ADMIN"
        case .ELOOP, .EINVAL: "the file system of the state folder is stacked on another one (an overlay)"
        default: "the kernel refuses backing files: \(error)"
        }
    }

    // MARK: Requirements for the underlying file system

    /// Creates a file and checks the requirements. Leases must tell whether a file is still mapped; without them writes
    /// could be missed.
    private func makeSample() throws -> (FileDescriptor, reader: FileDescriptor) {
        let file = try sample()
        let reader = try file.reopenedForReading()
        guard try reader.hasWriters() else { throw UbiquityError(.notSupported, "leases do not report writers") }
        guard try !Self.isInMemory(reader) else {
            // Nothing is written back there, so stores through mappings do not change a file's times.
            throw UbiquityError(.notSupported, "it is a memory file system")
        }
        return (file, reader)
    }

    private static func isInMemory(_ file: FileDescriptor) throws(Errno) -> Bool {
        try [memoryFileSystem, ramFileSystem].contains(file.fileSystemKind())
    }

    /// linux/magic.h: TMPFS_MAGIC and RAMFS_MAGIC.
    private static let memoryFileSystem: Int64 = 0x0102_1994
    private static let ramFileSystem: Int64 = 0x8584_58f6

    /// Whether two changes within one tick, with a look between them, have different times.
    private static func timesTellAll(of file: FileDescriptor) throws(Errno) -> Bool {
        var last = try file.status().changedAt
        for round in 0..<timeRounds {
            try file.write([UInt8(round)], at: 0)
            let next = try file.status().changedAt
            guard next != last else { return false }
            last = next
        }
        return true
    }

    /// A tick takes at least 1 ms, a round some microseconds.
    private static let timeRounds = 8
}
