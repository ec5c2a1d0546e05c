import Glibc
import Testing
@testable import UbiquityFUSE
import UbiquitySystem

/// The kernel's data in an entry of a ring, and the answers from there.
@Suite struct RingEntryTests {
    private final class Server: RingServer {
        func answered(_ entry: RingEntry) {}
    }

    /// A request in the kernel's layout: its header, the part for its kind, and the remaining bytes in the payload.
    private func fill(_ entry: RingEntry, length: UInt32, request: UInt64, operation: [UInt8], rest: [UInt8]) {
        let parts = entry.vector.assumingMemoryBound(to: iovec.self)
        guard let header = parts[0].iov_base, let payload = parts[1].iov_base else { return }
        header.storeBytes(of: length, as: UInt32.self)
        header.storeBytes(of: 1, toByteOffset: 4, as: UInt32.self)
        header.storeBytes(of: request, toByteOffset: 8, as: UInt64.self)
        (header + 128).copyMemory(from: operation, byteCount: operation.count)
        header.storeBytes(of: UInt32(rest.count), toByteOffset: 272, as: UInt32.self)
        payload.copyMemory(from: rest, byteCount: rest.count)
    }

    @Test func requestPartsAreJoined() throws {
        let entry = try #require(RingEntry(queue: 0, number: 0))
        let operation = [UInt8](1...16), rest = [UInt8]("name".utf8) + [0]
        fill(entry, length: 40 + 16 + 5, request: 77, operation: operation, rest: rest)
        let message = try #require(entry.message())
        #expect(message.count == 61 && entry.opcode == 1 && entry.request == 77)
        #expect(Array(message[40..<56]) == operation && Array(message[56...]) == rest)
    }

    /// Contradictory lengths are refused, and nothing is read beyond the data.
    @Test(arguments: [(40 + 200, 5), (44, 5), (0, 0), (UInt32.max, 5), (60, UInt32.max)] as [(UInt32, UInt32)])
    func impossibleLengthsAreRefused(length: UInt32, rest: UInt32) throws {
        let entry = try #require(RingEntry(queue: 0, number: 0))
        fill(entry, length: length, request: 1, operation: [], rest: [])
        let header = try #require(entry.vector.assumingMemoryBound(to: iovec.self)[0].iov_base)
        header.storeBytes(of: rest, toByteOffset: 272, as: UInt32.self)
        #expect(entry.message() == nil)
    }

    @Test func answerIsSentToItsRequest() throws {
        let entry = try #require(RingEntry(queue: 0, number: 0))
        let underWay = RequestsUnderWay()
        fill(entry, length: 40, request: 9, operation: [], rest: [])
        #expect(!underWay.begin(9, RequestsUnderWay.Place(entry: entry, server: Server())))
        var header: [UInt64] = [21, 9], data = [UInt8]("bytes".utf8)
        let count = header.withUnsafeMutableBytes { header in
            data.withUnsafeMutableBytes { data in
                let answer = [
                    iovec(iov_base: header.baseAddress, iov_len: 16), iovec(iov_base: data.baseAddress, iov_len: 5),
                ]
                // The second answer has no request any more, like a notification.
                return [underWay.answer(answer, count: 2), underWay.answer(answer, count: 2)]
            }
        }
        #expect(count == [21, nil])
        let parts = entry.vector.assumingMemoryBound(to: iovec.self)
        let sent = try #require(parts[1].iov_base)
        #expect((0..<5).map { sent.load(fromByteOffset: $0, as: UInt8.self) } == [UInt8]("bytes".utf8))
        #expect(try #require(parts[0].iov_base).load(fromByteOffset: 272, as: UInt32.self) == 5)
    }

    /// An interrupt that comes before its request is not lost: libfuse returns it.
    @Test func interruptReachesItsRequest() throws {
        let entry = try #require(RingEntry(queue: 0, number: 0))
        let underWay = RequestsUnderWay(), place = RequestsUnderWay.Place(entry: entry, server: Server())
        func giveBack(_ request: UInt64, _ error: Int32 = EAGAIN) -> UInt64? {
            var header: [UInt64] = [UInt64(UInt32(bitPattern: -error)) << 32 | 16, request]
            return header.withUnsafeMutableBytes { header in
                underWay.giveBack([iovec(iov_base: header.baseAddress, iov_len: 16)], count: 1)
            }
        }
        #expect(giveBack(9) == nil)
        #expect(underWay.begin(8, place))
        // The request has begun by now, so the interrupt is repeated.
        #expect(giveBack(9) == 8)
        // Other messages, and answers to them, are not kept.
        #expect(giveBack(8) == nil)
        #expect(giveBack(11, ENOSYS) == nil)
        #expect(!underWay.begin(10, place))
        // Interrupts for unknown requests are dropped.
        for request in 0..<1000 as Range<UInt64> { #expect(giveBack(100 + request * 2 + 1) == nil) }
        #expect(!underWay.begin(100, place))
        #expect(underWay.begin(100 + 999 * 2, place))
    }

    /// The switch is the whole machine's.
    @Test func switchStaysOffUnlessRequested() throws {
        let path = "/tmp/ubiquity-ring-\(getpid())"
        try SmallFile.publish(Array("N\n".utf8), at: path)
        defer { unlink(path) }
        func value() throws -> UInt8? { try SmallFile.read(path, limit: 16)?.first }
        let asFound = RingSupport.offer(turnsOn: false, parameter: path)
        #expect(asFound.refusal != nil && asFound.notice == nil)
        #expect(try value() == UInt8(ascii: "N"))
        let asked = RingSupport.offer(turnsOn: true, parameter: path)
        // Without io_uring or the right to use it, nothing is turned on.
        #expect((asked.refusal == nil) == (asked.notice?.contains(path) == true))
        #expect(try value() == (asked.refusal == nil ? UInt8(ascii: "Y") : UInt8(ascii: "N")))
        guard asked.refusal == nil else { return }
        #expect(asFound.refusal?.contains("--enable-io-uring") == true)
        #expect(RingSupport.offer(turnsOn: false, parameter: path) == RingSupport.Offer())
    }

    /// Cores from 0 on have a queue each; other numberings use the device.
    @Test func coresAreCounted() {
        #expect(RingSupport.lastCore(of: "0-7\n") == 7)
        #expect(RingSupport.lastCore(of: "0\n") == 0)
        for text in ["", "1-3", "0-1,4-5", "0,2", "0-x", "0-1-2"] { #expect(RingSupport.lastCore(of: text) == nil) }
        #expect(RingSupport.directServers(cores: 2) == 16)
        #expect(RingSupport.directServers(cores: 64) == 2)
    }
}
