internal import NIOCore
internal import UbiquityCore
internal import UbiquityWire

/// Limits of the server that callers need not know.
enum ServerLimits {
    /// Limit for a complete header: from acceptance for the first header of a connection, from its first byte for a
    /// later one. After that the connection is closed.
    static let headerTime: TimeAmount = .seconds(10)
    /// A connection is closed if its client reads no byte of its answer for this time.
    static let answerSilence: TimeAmount = .seconds(30)
    /// Bytes of an answer that the kernel takes before it has sent them (TCP_NOTSENT_LOWAT). The server notices a
    /// client's reading in steps of half of that: 4 KiB/s are enough to be noticed within `answerSilence`.
    static let kernelBytes = 256 * 1024
    /// A request whose body brings no byte for this time is answered with 408 and its connection closed.
    static let bodySilence: TimeAmount = .seconds(20)
    /// From the first `bodySilence` on, a body must have arrived at this average rate, or it is answered with 408. This
    /// is a modem's rate: a slower client holds a connection and memory on purpose.
    static let minimumBodyBytesPerSecond = 1024
    /// A connection without a request is closed after this time. It is longer than a client keeps an unused one
    /// (`ClientLimits.unusedConnection`), so that normally the client closes it.
    static let idleConnection: TimeAmount = .seconds(75)
    /// Limits for reading and dropping the remaining body after an early answer (a refusal). Closing at once would
    /// reset the connection and lose the answer. The bytes cover what a client may have sent before it reads the
    /// refusal of a body that is a little too long.
    static let lingering: TimeAmount = .seconds(10)
    static let lingeringBytes = 2 * Limits.maximumMessageLength
    /// Largest size in bytes of all header fields together, and of each. A device's fields need less than 1 KiB.
    static let headerBytes = 16 * 1024
    /// Connections in the kernel's queue that the server has not accepted yet.
    static let backlog = 512
    /// Bytes read from a connection at once, to have few wake-ups for chunks, which are 256 KiB on average.
    static let readBytes = 256 * 1024
    /// A writer waits while this many bytes are unsent in a connection, and continues below the lower mark.
    static let unsentBytes = ChannelOptions.Types.WriteBufferWaterMark(low: 512 * 1024, high: 1024 * 1024)
    /// Interval of comments in a silent event stream, by which both ends notice a dead connection.
    static let heartbeat: Duration = .seconds(15)
    /// Events buffered in one event stream; only the newest revision counts, so older ones may be dropped.
    static let pendingEvents = 4
    /// Largest body of chunk ids: `maximumChunksPerRequest` ids of 32 bytes in hexadecimal JSON need 70 bytes each.
    static let chunkIDsLength = Limits.maximumChunksPerRequest * 96 + 1024
    /// Largest body of chunks with a frame header for each.
    static let uploadLength = Limits.maximumChunkBytesPerRequest
        + Limits.maximumChunksPerRequest * ChunkFrame.headerLength
    /// Chunks of an upload are stored when this many bytes have arrived.
    static let uploadBatchBytes = 4 * 1024 * 1024
    /// Concurrent uploads, of all accounts and of one. Each holds one batch and one chunk; others wait for `patience`.
    static let uploads = 64
    static let uploadsPerAccount = 8
    /// Small chunks of a download are sent together up to this many bytes.
    static let frameBatchBytes = 64 * 1024
    /// Open connections; more wait in the kernel's queue.
    static let connections = 4096
    /// Open connections of one address; more are closed at once. A device has about six.
    static let connectionsPerAddress = 512
    /// A body of up to this many bytes is decoded at once and does not count towards the bodies in memory.
    static let smallBody = 64 * 1024
    /// Bytes of larger bodies in memory at one time, per account and in all. An account's limit allows one of the
    /// largest and some others; the total allows less than three accounts at their limit. A decoded body takes less
    /// than four times its length (`CensusLimits`).
    static let bodyBytesPerAccount = 48 * 1024 * 1024
    static let bodyBytes = 128 * 1024 * 1024
    /// How long a request waits for others before it is answered with 503.
    static let patience: Duration = .seconds(20)
    /// Large messages decoded at one time.
    static let decoders = 2
    /// Longest body of an account request in bytes: names of an account, a token and containers.
    static let accountRequestLength = 16 * 1024
    /// Concurrent downloads of links, of all and of one. Others wait for `patience`.
    static let linkDownloads = 64
    static let downloadsPerLink = 8
    /// Longest body of a link's password form in bytes.
    static let linkFormLength = 8 * 1024
    /// Failed sign-ins of an address, and of an account name, before the next attempt must wait.
    static let freeSignInFailures = 10
    /// The longest pause between attempts. Nobody is locked out for ever.
    static let longestSignInPause: Duration = .seconds(60)
    /// After this time without a failure the earlier ones are forgotten.
    static let signInMemory: Duration = .seconds(900)
    /// Addresses with failures, and accepted tokens, that are remembered.
    static let rememberedSignIns = 10_000
    /// Between the last event of a revoked token's streams and the end of its connections.
    static let revocationGrace: TimeAmount = .milliseconds(250)
}
