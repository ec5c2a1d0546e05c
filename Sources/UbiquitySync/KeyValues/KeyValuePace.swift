/// Decides when sets are sent: at most 15 requests in 90 seconds, and a lone set at once.
///
/// After a request the next one waits for a moment, so that sets a second apart travel together. The wait grows with
/// the requests of the last 90 seconds. A set after a quiet time does not wait.
package struct KeyValuePace: Sendable {
    package static let requests = 15
    package static let window = Duration.seconds(90)
    /// The shortest wait between two requests.
    package static let shortest = Duration.milliseconds(1500)
    /// The longest one: with it the limit is never reached by a steady stream of sets.
    package static let longest = window / requests
    /// Requests in the window after which the wait doubles, and doubles again.
    private static let step = 3

    /// The times of the last requests, in uptime of the machine.
    private var sent: [Duration] = []

    package init() {}

    /// Records a request.
    package mutating func record(at now: Duration) {
        sent.append(now)
        if sent.count > Self.requests { sent.removeFirst(sent.count - Self.requests) }
    }

    /// How long the next request must wait; zero for not at all.
    package func wait(at now: Duration) -> Duration {
        guard let last = sent.last else { return .zero }
        let recent = sent.count { now - $0 < Self.window }
        let spacing = min(Self.longest, Self.shortest * (1 << min(recent / Self.step, 2)))
        var wait = last + spacing - now
        if sent.count == Self.requests, let first = sent.first { wait = max(wait, first + Self.window - now) }
        return max(.zero, wait)
    }

    /// How long a request that a program waits for must wait: only for the limit.
    package func waitAtMost(at now: Duration) -> Duration {
        guard sent.count == Self.requests, let first = sent.first else { return .zero }
        return max(.zero, first + Self.window - now)
    }
}
