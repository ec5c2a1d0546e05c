import Testing
import UbiquityCore
import UbiquityWire

@Suite struct ChunkFrameTests {
    private func chunks() throws -> [Chunk] {
        [
            Chunk(id: try Sample.chunk(1), bytes: [1]), Chunk(id: try Sample.chunk(2), bytes: Array(0...255)),
            Chunk(id: try Sample.chunk(0), bytes: [UInt8](repeating: 7, count: 5000)),
        ]
    }

    private func header(length: UInt32) throws -> [UInt8] {
        var bytes = ChunkFrame.header(try Sample.chunk(1), length: 1)
        for (position, shift) in [24, 16, 8, 0].enumerated() {
            bytes[32 + position] = UInt8(truncatingIfNeeded: length >> UInt32(shift))
        }
        return bytes
    }

    @Test(arguments: [1, 2, 35, 36, 37, 1000, 1 << 20]) func chunksSurvivePiecesOfAnyLength(_ step: Int) throws {
        var stream = [UInt8]()
        for chunk in try chunks() { ChunkFrame.append(chunk, to: &stream) }
        var decoder = ChunkFrameDecoder()
        var received = [Chunk]()
        for start in stride(from: 0, to: stream.count, by: step) {
            received += try decoder.push(Array(stream[start..<min(start + step, stream.count)]))
        }
        try decoder.finish()
        #expect(received == (try chunks()))
    }

    @Test(arguments: [0, UInt32(Limits.maximumChunkLength) + 1, UInt32.max - 1]) func badLengthsAreRefused(
        _ length: UInt32
    ) throws {
        var decoder = ChunkFrameDecoder()
        let bytes = try header(length: length)
        #expect(throws: UbiquityError.self) { try decoder.push(bytes) }
    }

    @Test func largestChunkIsAccepted() throws {
        let chunk = Chunk(id: try Sample.chunk(3), bytes: [UInt8](repeating: 1, count: Limits.maximumChunkLength))
        var decoder = ChunkFrameDecoder()
        #expect(try decoder.push(ChunkFrame.encode(chunk)) == [chunk])
    }

    @Test func truncatedStreamIsRefused() throws {
        let frame = ChunkFrame.encode(Chunk(id: try Sample.chunk(1), bytes: [1, 2, 3]))
        for length in 1..<frame.count {
            var decoder = ChunkFrameDecoder()
            #expect(try decoder.push(Array(frame[..<length])).isEmpty)
            let error = #expect(throws: UbiquityError.self) { try decoder.finish() }
            #expect(error?.code == .offline)
        }
    }

    @Test func failureEndsTheStreamAfterEarlierChunks() throws {
        let first = Chunk(id: try Sample.chunk(1), bytes: [1, 2, 3])
        let failure = UbiquityError(.damaged, "bad sector", at: "here")
        let stream = ChunkFrame.encode(first) + (try ChunkFrame.failure(failure))
        var decoder = ChunkFrameDecoder()
        #expect(try decoder.push(stream) == [first])
        let error = #expect(throws: UbiquityError.self) { try decoder.finish() }
        #expect(error == failure)
        #expect(try decoder.push(ChunkFrame.encode(first)).isEmpty)
    }

    @Test func endlessFailureIsRefused() throws {
        var decoder = ChunkFrameDecoder()
        let bytes = try header(length: .max) + [0x7F, 0, 0, 0]
        #expect(throws: UbiquityError.self) { try decoder.push(bytes) }
    }
}
