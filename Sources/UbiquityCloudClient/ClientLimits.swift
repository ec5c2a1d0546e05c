import NIOCore

/// Times and sizes of the client. A time is how long nothing may happen, not how long a transfer may take.
package enum ClientLimits {
    /// Until a connection stands, TLS included.
    static let connect: TimeAmount = .seconds(3)
    /// Until it is tried again where a Unix socket's queue is full.
    static let queuePause: Duration = .milliseconds(20)
    /// So often: as long as a connection may take, and not shorter where this process hardly gets to run.
    static let queueTurns = 150
    /// Until the answer to a request that carries no chunks begins.
    static let control: TimeAmount = .seconds(15)
    /// Until the answer to a commit that carries no chunks begins.
    static let commit: TimeAmount = .seconds(60)
    /// Until the answer to an upload, or to a commit with chunks, begins: 4 MiB at 16 KiB/s. Once it is sent,
    /// `uploadSilence` counts.
    static let upload: TimeAmount = .seconds(300)
    /// Between two bytes of an upload that the cloud takes, and from the last one to its answer: what the kernel and
    /// whatever stands between have taken in counts as sent, though it may still be on its way.
    static let uploadSilence: TimeAmount = .seconds(90)
    /// How long what was sent of a small request may stay unacknowledged by the other end's kernel, which is at no
    /// time busy: six attempts of TCP to send it.
    static let unacknowledged: TimeAmount = .seconds(8)
    /// Between two bytes of an answer, and between two that the cloud takes of a request.
    static let silence: TimeAmount = .seconds(20)
    /// Between two bytes of an event stream. The cloud sends a comment every 15 s.
    static let eventSilence: TimeAmount = .seconds(40)
    /// A kept connection that is not used for this time is closed: before the cloud does it (75 s), so that a request
    /// hardly ever meets a connection that is just being closed.
    static let unusedConnection: TimeAmount = .seconds(50)
    /// Connections to one cloud for each of calls, commits, downloads, uploads and event streams. More requests than
    /// that at one time wait, and fail as offline after `connect`: whoever calls must bound its transfers below this.
    static let connections = 64
    /// Downloads that are answered at one time; others wait for their turn. Fewer than connections, since one that
    /// has just been broken off may still have its own.
    static let fetches = connections - 8
    /// Bytes read from a connection at once.
    static let readBytes = 256 * 1024
    /// Bytes of an upload that may be unsent before the client waits, and that are handed on at a time: so few that on
    /// a slow line some go in each `uploadSilence`.
    static let unsentBytes = ChannelOptions.Types.WriteBufferWaterMark(low: 128 * 1024, high: 512 * 1024)
    static let frameBytes = 128 * 1024
    /// Bytes of an upload that the kernel takes before it has sent them (TCP_NOTSENT_LOWAT of tcp(7)).
    static let kernelBytes = 128 * 1024
    /// The reason in an answer that is not a success.
    static let failureLength = 1024 * 1024
    /// A manifest of the largest file takes 28 MB. A longer page is asked for in smaller ones.
    static let answerLength = 32 * 1024 * 1024
    /// The smallest page there is: the items of one commit, which may have attributes of 64 KiB each.
    static let smallestPageLength = 256 * 1024 * 1024
    /// A usage, or what is known of a container.
    static let shortAnswerLength = 64 * 1024
    /// An id of a chunk in a list of those asked about, and some.
    static let chunkIDLength = 64
    /// A longer answer is not decoded on a cooperative thread.
    static let smallAnswer = 64 * 1024
    /// How often a request goes that is damaged on its way, or whose answer is.
    static let damagedAttempts = 8
    /// The pause before the second repetition; the first one goes at once. Twice as long each time.
    static let firstDamagedPause: Duration = .milliseconds(50)
    static let longestDamagedPause: Duration = .seconds(1)
    /// A longer message than this goes as an upload does, with its time.
    static let callLength = 64 * 1024
    /// What a line must carry for that to be enough, bytes a second.
    static let slowestLine = 16 * 1024
    /// A line of an event stream.
    static let eventLineLength = 4096
}
