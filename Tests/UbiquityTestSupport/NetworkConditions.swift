/// Faults of a device's requests. Probabilities are per request.
package struct NetworkConditions: Sendable {
    /// The request never arrives.
    package var lostRequests = 0.0
    /// The connection breaks at once, before the request arrives.
    package var brokenRequests = 0.0
    /// The request takes effect, and its answer never arrives.
    package var lostAnswers = 0.0
    /// A commit arrives a second time, much later.
    package var repeatedCommits = 0.0
    /// The stream of news breaks, per announced revision.
    package var brokenNews = 0.0
    /// A revision is not announced.
    package var lostNews = 0.0
    /// A chunk is damaged during a download.
    package var damagedChunks = 0.0
    /// The time that a request, and its answer, take each.
    package var delay: ClosedRange<Duration> = .milliseconds(1)...(.milliseconds(5))
    /// Time after which a lost request or answer is given up.
    package var timeout = Duration.seconds(10)

    package static let perfect = NetworkConditions()

    /// The worst network that still works.
    package static let bad = NetworkConditions(
        lostRequests: 0.06, lostAnswers: 0.06, repeatedCommits: 0.1, brokenNews: 0.05, lostNews: 0.2,
        damagedChunks: 0.03, delay: .milliseconds(1)...(.milliseconds(2000)))
}

/// The calls of `CloudService`, as a script of faults names them.
package enum CloudCall: String, Sendable, CaseIterable {
    case open, changes, snapshot, commit, missingChunks, upload, fetchChunks, manifest, versions, trash, news, usage
}

/// A fault of one coming call.
package enum ScriptedFault: Sendable {
    /// It fails before it takes effect.
    case fail(any Error)
    /// The request is delayed by that time.
    case hold(Duration)
    /// It takes effect; its answer is lost.
    case loseAnswer
    /// It takes effect; its answer is delayed by that time.
    case holdAnswer(Duration)
    /// The device gives up a commit, which arrives that much later.
    case late(Duration)
    /// Runs the closure before the call takes effect. The call never returns.
    case vanishBefore(@Sendable () -> Void)
    /// Runs the closure after the call has taken effect. The call never returns.
    case vanishAfter(@Sendable () -> Void)
}
