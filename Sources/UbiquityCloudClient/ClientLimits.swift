import NIOCore

/// Times and sizes of the client. A time limits inactivity, not the duration of a transfer.
package enum ClientLimits {
    /// Until a connection is established, TLS included.
    static let connect: TimeAmount = .seconds(3)
    /// The pause before the next attempt if a Unix socket's queue is full.
    static let queuePause: Duration = .milliseconds(20)
    /// The number of these attempts: as long as a connection may take, and not less where this process rarely runs.
    static let queueTurns = 150
    /// Until the answer to a request without chunks begins.
    static let control: TimeAmount = .seconds(15)
    /// Until the answer to a commit without chunks begins.
    static let commit: TimeAmount = .seconds(60)
    /// Until the answer to an upload, or to a commit with chunks, begins: 4 MiB at 16 KiB/s. After the body is sent,
    /// `uploadSilence` applies.
    static let upload: TimeAmount = .seconds(300)
    /// Between two bytes that the cloud takes of an upload, and from the last one to its answer. Bytes taken by the
    /// kernel or a proxy count as sent, though they may still be in transit.
    static let uploadSilence: TimeAmount = .seconds(90)
    /// How long the sent bytes of a small request may stay unacknowledged by the peer's kernel, which is never busy.
    /// TCP makes six attempts in that time.
    static let unacknowledged: TimeAmount = .seconds(8)
    /// Between two bytes of an answer, and between two that the cloud takes of a request.
    static let silence: TimeAmount = .seconds(20)
    /// Between two bytes of an event stream. The cloud sends a comment every 15 s.
    static let eventSilence: TimeAmount = .seconds(40)
    /// A kept connection is closed after this time without use. That is before the cloud closes it (75 s), so a request
    /// hardly ever meets a closing connection.
    static let unusedConnection: TimeAmount = .seconds(50)
    /// Connections to one cloud for each of calls, commits, downloads, uploads and event streams. Further requests
    /// wait, and fail as offline after `connect`: a caller must limit its transfers to less than this.
    static let connections = 64
    /// Concurrent downloads. Others wait for their turn. Fewer than `connections`, because a download just broken off
    /// may still occupy one.
    static let fetches = connections - 8
    /// Bytes read from a connection at once.
    static let readBytes = 256 * 1024
    /// Unsent bytes of an upload above which the client waits, and bytes handed to the connection at a time. They are
    /// few, so that some are sent within each `uploadSilence` on a slow connection.
    static let unsentBytes = ChannelOptions.Types.WriteBufferWaterMark(low: 128 * 1024, high: 512 * 1024)
    static let frameBytes = 128 * 1024
    /// Bytes of an upload that the kernel takes before it has sent them (TCP_NOTSENT_LOWAT of tcp(7)).
    static let kernelBytes = 128 * 1024
    /// The body of an answer that is not a success.
    static let failureLength = 1024 * 1024
    /// The longest answer. A manifest of the largest file takes 28 MB. A longer page is requested in smaller ones.
    static let answerLength = 32 * 1024 * 1024
    /// The longest page of the smallest limit: the items of one commit, which may have attributes of 64 KiB each.
    static let smallestPageLength = 256 * 1024 * 1024
    /// A usage, or the description of a container.
    static let shortAnswerLength = 64 * 1024
    /// A chunk's id in a list of chunks, with some overhead.
    static let chunkIDLength = 64
    /// A longer answer is not decoded on a cooperative thread.
    static let smallAnswer = 64 * 1024
    /// How often a request is sent if it or its answer is damaged in transit.
    static let damagedAttempts = 8
    /// The pause before the second repetition. The first is immediate, and the pause doubles each time.
    static let firstDamagedPause: Duration = .milliseconds(50)
    static let longestDamagedPause: Duration = .seconds(1)
    /// A message longer than this is sent like an upload, with an upload's times.
    static let callLength = 64 * 1024
    /// The slowest connection for which these times suffice, in bytes per second.
    static let slowestLine = 16 * 1024
    /// A line of an event stream.
    static let eventLineLength = 4096
}
