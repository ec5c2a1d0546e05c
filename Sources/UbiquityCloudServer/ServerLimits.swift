internal import NIOCore
internal import UbiquityCore
internal import UbiquityWire

/// Every bound of the server that its callers need not know.
enum ServerLimits {
    /// The first header of a connection must be complete so long after the connection was accepted, a later one so long
    /// after its first byte. Otherwise the connection is closed.
    static let headerTime: TimeAmount = .seconds(10)
    /// A connection whose client takes no byte of its answer for so long is closed.
    static let answerSilence: TimeAmount = .seconds(30)
    /// Bytes of an answer that the kernel takes before it has sent them (TCP_NOTSENT_LOWAT). The server sees how fast a
    /// client reads in steps of half of that: 4 KiB/s are enough to be seen within `answerSilence`.
    static let kernelBytes = 256 * 1024
    /// A request whose body brings no byte for so long is answered 408 and its connection closed.
    static let bodySilence: TimeAmount = .seconds(20)
    /// From the first `bodySilence` on a body must have come at this average rate, or it is answered 408. A modem's
    /// rate: what is slower holds a connection and memory on purpose.
    static let minimumBodyBytesPerSecond = 1024
    /// A connection without a request is closed after this time. Longer than a client keeps one unused
    /// (`ClientLimits.unusedConnection`), so that it is normally the client who closes.
    static let idleConnection: TimeAmount = .seconds(75)
    /// After an answer that came before the whole body was read (a refusal), the rest of the body is read and dropped,
    /// for this time and this many bytes at most: closing at once would reset the connection and take the answer along.
    /// The bytes are what a client may have sent before it reads the refusal of a body that is a little too long.
    static let lingering: TimeAmount = .seconds(10)
    static let lingeringBytes = 2 * Limits.maximumMessageLength
    /// Header fields, all together and each (bytes). Ours need less than 1 KiB.
    static let headerBytes = 16 * 1024
    /// Connections in the kernel's queue that the server has not accepted yet.
    static let backlog = 512
    /// Bytes read from a connection at once: few wake-ups for chunks, which are 256 KiB on average.
    static let readBytes = 256 * 1024
    /// A writer waits while this many bytes are unsent in a connection, and goes on below the lower mark.
    static let unsentBytes = ChannelOptions.Types.WriteBufferWaterMark(low: 512 * 1024, high: 1024 * 1024)
    /// A comment is sent in a silent event stream this often, so that both ends notice a dead connection.
    static let heartbeat: Duration = .seconds(15)
    /// Events waiting in one event stream; only the newest revision counts, so older ones may be dropped.
    static let pendingEvents = 4
    /// A body of chunk ids: `maximumChunksPerRequest` ids of 32 bytes in hexadecimal JSON need 70 bytes each.
    static let chunkIDsLength = Limits.maximumChunksPerRequest * 96 + 1024
    /// A body of chunks with a frame's header for each.
    static let uploadLength = Limits.maximumChunkBytesPerRequest
        + Limits.maximumChunksPerRequest * ChunkFrame.headerLength
    /// Chunks of an upload are stored when so many bytes of them are here.
    static let uploadBatchBytes = 4 * 1024 * 1024
    /// Uploads at one time, of all accounts and of one. Each holds one batch and one chunk; others wait for `patience`.
    static let uploads = 64
    static let uploadsPerAccount = 8
    /// Small chunks of a download are sent together up to so many bytes.
    static let frameBatchBytes = 64 * 1024
    /// Open connections; more wait in the kernel's queue.
    static let connections = 4096
    /// Open connections of one address; more are closed at once. A device has about six.
    static let connectionsPerAddress = 512
    /// A body of no more bytes is decoded at once and does not count towards those in memory.
    static let smallBody = 64 * 1024
    /// Bytes of larger bodies in memory at one time: of an account one of the largest and some others, of all four.
    /// Decoded, each takes less than four times its length (`CensusLimits`).
    static let bodyBytesPerAccount = 48 * 1024 * 1024
    static let bodyBytes = 128 * 1024 * 1024
    /// How long a request waits for others before it is answered 503.
    static let patience: Duration = .seconds(20)
    /// Large messages that are decoded at one time.
    static let decoders = 2
    /// An account's name in a request of the account routes.
    static let accountRequestLength = 4096
}
