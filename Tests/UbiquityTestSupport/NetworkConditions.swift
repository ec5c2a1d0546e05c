/// What befalls the requests of a device. Probabilities are per request.
package struct NetworkConditions: Sendable {
    /// The request never arrives.
    package var lostRequests = 0.0
    /// The connection breaks at once, before the request arrives.
    package var brokenRequests = 0.0
    /// The request has its effect, and its answer never arrives.
    package var lostAnswers = 0.0
    /// A commit arrives a second time, much later.
    package var repeatedCommits = 0.0
    /// The stream of news breaks, per revision told.
    package var brokenNews = 0.0
    /// A revision is not told.
    package var lostNews = 0.0
    /// A chunk is damaged on its way down.
    package var damagedChunks = 0.0
    /// How long a request, and its answer, are on their way each.
    package var delay: ClosedRange<Duration> = .milliseconds(1)...(.milliseconds(5))
    /// Until a lost request or answer is given up.
    package var timeout = Duration.seconds(10)

    package static let perfect = NetworkConditions()

    /// As bad as a network is that is still of use.
    package static let bad = NetworkConditions(
        lostRequests: 0.06, lostAnswers: 0.06, repeatedCommits: 0.1, brokenNews: 0.05, lostNews: 0.2,
        damagedChunks: 0.03, delay: .milliseconds(1)...(.milliseconds(2000)))
}

/// The calls of `CloudService`, as a script of faults names them.
package enum CloudCall: String, Sendable, CaseIterable {
    case open, changes, snapshot, commit, missingChunks, upload, fetchChunks, manifest, versions, trash, news, usage
}

/// What a test has happen to one coming call.
package enum ScriptedFault: Sendable {
    /// It fails before it has any effect.
    case fail(any Error)
    /// It is that much later on its way.
    case hold(Duration)
    /// It has its effect; its answer is lost.
    case loseAnswer
    /// It has its effect; its answer is that much later on its way.
    case holdAnswer(Duration)
    /// A commit is given up by the device and arrives that much later.
    case late(Duration)
    /// Before it has any effect, this is done, and the call never comes back.
    case vanishBefore(@Sendable () -> Void)
    /// After it has had its effect, this is done, and the call never comes back.
    case vanishAfter(@Sendable () -> Void)
}
