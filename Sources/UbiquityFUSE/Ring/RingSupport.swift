internal import CUbiquityShims
internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem

/// Whether and how the kernel's requests can come by io_uring on this machine.
package enum RingSupport {
    package static let parameter = "/sys/module/fuse/parameters/enable_uring"
    private static let possibleCores = "/sys/devices/system/cpu/possible"
    /// Each core takes threads and address space.
    private static let maximumCores = 256

    /// Whether requests come by io_uring.
    package struct Offer: Hashable, Sendable {
        /// Why they do not; nil if they do.
        package var refusal: String?
        /// A message for the user about a change to the whole machine.
        package var notice: String?

        package init(refusal: String? = nil, notice: String? = nil) {
            self.refusal = refusal
            self.notice = notice
        }
    }

    /// Checks whether the kernel offers rings.
    /// - Parameter turnsOn: whether to enable them, which affects every FUSE file system of this machine from then on.
    ///   Only root can.
    package static func offer(turnsOn: Bool, parameter: String = Self.parameter) -> Offer {
        // See `ServerWatch`. Without this capability the device is faster on a machine that is not busy.
        guard CUbiquity_mayChangePolicy() != 0 else {
            return Offer(refusal: "this process lacks the capability CAP_SYS_NICE")
        }
        // Many containers and some machines lack io_uring. The kernel would wait for queues that cannot be made.
        do throws(Errno) { _ = try KernelRing(submissions: 2, completions: 4) } catch {
            return Offer(refusal: "io_uring is not available here: \(error)")
        }
        guard let value = try? SmallFile.read(parameter, limit: 16) else {
            return Offer(refusal: "the kernel does not offer it (it came with Linux 6.14)")
        }
        if value.first == UInt8(ascii: "Y") { return Offer() }
        guard turnsOn else {
            return Offer(
                refusal: "\(parameter) is off; 'ubiquity mount --enable-io-uring' as root turns it on for the machine")
        }
        do throws(Errno) {
            try FileDescriptor.open(parameter, .writeOnly).write(Array("Y".utf8))
        } catch {
            return Offer(refusal: "\(parameter) is off and cannot be turned on: \(error)")
        }
        return Offer(notice: "\(parameter) is on now, for all FUSE file systems until the machine restarts")
    }

    /// The number of queues that the kernel expects: one for each possible core, from 0 on.
    static func cores() throws(UbiquityError) -> UInt16 {
        let text = try SmallFile.read(possibleCores, limit: 4096).map { String(decoding: $0, as: UTF8.self) } ?? ""
        guard let last = lastCore(of: text), last < maximumCores else {
            throw UbiquityError(
                .notSupported, "the machine has more than \(maximumCores) cores, or numbers them unusually")
        }
        return UInt16(last + 1)
    }

    /// The N of "0-N" or of "0".
    static func lastCore(of text: String) -> Int? {
        let parts = text.split(whereSeparator: \.isNewline).first?.split(separator: "-") ?? []
        guard parts.first == "0", parts.count <= 2 else { return nil }
        return parts.last.flatMap { Int($0) }
    }

    /// Direct servers per core: 32 in all, at least two and at most 16 each.
    static func directServers(cores: UInt16) -> Int { max(2, min(16, 32 / Int(cores))) }
}
