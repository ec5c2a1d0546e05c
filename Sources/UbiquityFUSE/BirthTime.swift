internal import CFUSE
internal import Glibc
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// FUSE_STATX, which the kernel (since 6.6) sends when a program asks for a file's creation time (`stat -c %w`).
///
/// libfuse 3.14 does not know the request and would refuse it, and the kernel would not ask again. So this type takes
/// it out of the requests read from the kernel and answers it. The answer needs no more from the file system than
/// getattr.
enum BirthTime {
    /// The request's number. Offsets here are those of the kernel's linux/fuse.h.
    private static let opcode: UInt32 = 52
    private static let requestLength = 40 + 24
    private static let answerLength = 16 + 32 + 256
    /// STATX_BASIC_STATS and STATX_BTIME.
    private static let basicMask: UInt32 = 0x7FF
    private static let birthMask: UInt32 = 0x800

    /// Answers the request in `buffer`.
    /// - Returns: false for any other request, which libfuse serves.
    static func answer(_ buffer: UnsafeRawBufferPointer, _ context: SessionContext?, _ device: Int32) -> Bool {
        guard let context, buffer.count >= requestLength,
            buffer.loadUnaligned(fromByteOffset: 4, as: UInt32.self) == opcode
        else { return false }
        let request = buffer.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        let inode = buffer.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        var bytes: [UInt8]
        do {
            bytes = answer(try context.served.attributes(of: inode))
        } catch {
            bytes = [UInt8](repeating: 0, count: 16)
            store(-Errno(describing: error).rawValue, at: 4, in: &bytes)
        }
        store(UInt32(bytes.count), at: 0, in: &bytes)
        store(request, at: 8, in: &bytes)
        // For an interrupted request the kernel takes no answer. That is harmless: the answer gives out no lookup or
        // handle.
        bytes.withUnsafeMutableBytes { bytes in
            guard let start = bytes.baseAddress else { return }
            // As libfuse sends it: the header, then the answer.
            var parts = (
                iovec(iov_base: start, iov_len: 16), iovec(iov_base: start + 16, iov_len: bytes.count - 16)
            )
            withUnsafeMutablePointer(to: &parts) { parts in
                parts.withMemoryRebound(to: iovec.self, capacity: 2) { _ = context.send($0, 2, device) }
            }
        }
        return true
    }

    private static func answer(_ attributes: NodeAttributes) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: answerLength)
        store(UInt64(attributes.attributeTime), at: 16, in: &bytes)
        let start = 16 + 32
        store(basicMask | (attributes.createdAt == nil ? 0 : birthMask), at: start, in: &bytes)
        store(UInt32(NodeAttributes.blockSize), at: start + 4, in: &bytes)
        store(attributes.links, at: start + 16, in: &bytes)
        store(attributes.uid, at: start + 20, in: &bytes)
        store(attributes.gid, at: start + 24, in: &bytes)
        store(UInt16(truncatingIfNeeded: attributes.mode), at: start + 28, in: &bytes)
        store(attributes.ino, at: start + 32, in: &bytes)
        store(attributes.size, at: start + 40, in: &bytes)
        store(attributes.blocks, at: start + 48, in: &bytes)
        let times = [
            attributes.accessedAt, attributes.createdAt ?? .zero, attributes.changedAt, attributes.modifiedAt,
        ]
        for (position, time) in times.enumerated() {
            store(time.seconds, at: start + 64 + position * 16, in: &bytes)
            store(UInt32(time.subsecondNanoseconds), at: start + 72 + position * 16, in: &bytes)
        }
        // Major and minor number, as new_encode_dev of the kernel packs them.
        store((attributes.device & 0xFFF00) >> 8, at: start + 128, in: &bytes)
        store(attributes.device & 0xFF | (attributes.device >> 12 & 0xFFF00), at: start + 132, in: &bytes)
        return bytes
    }

    private static func store(_ number: some FixedWidthInteger, at offset: Int, in bytes: inout [UInt8]) {
        withUnsafeBytes(of: number) { bytes.replaceSubrange(offset..<offset + $0.count, with: $0) }
    }
}
