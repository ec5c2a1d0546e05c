import Synchronization

/// Counters since the server's start, for `/metrics`.
final class Counters: Sendable {
    private let requests = Atomic<Int>(0)
    private let failures = Atomic<Int>(0)
    private let commits = Atomic<Int>(0)
    private let received = Atomic<Int>(0)
    private let sent = Atomic<Int>(0)
    private let connections = Atomic<Int>(0)
    private let refusedConnections = Atomic<Int>(0)
    private let failedSignIns = Atomic<Int>(0)
    private let eventStreams = Atomic<Int>(0)

    func countRequest() { requests.add(1, ordering: .relaxed) }
    func countFailure() { failures.add(1, ordering: .relaxed) }
    func countCommit() { commits.add(1, ordering: .relaxed) }
    func countReceived(_ bytes: Int) { received.add(bytes, ordering: .relaxed) }
    func countSent(_ bytes: Int) { sent.add(bytes, ordering: .relaxed) }
    func addConnections(_ change: Int) { connections.add(change, ordering: .relaxed) }
    func countRefusedConnection() { refusedConnections.add(1, ordering: .relaxed) }
    func countFailedSignIn() { failedSignIns.add(1, ordering: .relaxed) }
    func addEventStreams(_ change: Int) { eventStreams.add(change, ordering: .relaxed) }

    /// In Prometheus' text format.
    var text: String {
        Self.line("ubiquity_requests_total", "counter", "Requests answered.", requests)
            + Self.line("ubiquity_request_failures_total", "counter", "Requests answered with a failure.", failures)
            + Self.line("ubiquity_commits_total", "counter", "Commits answered.", commits)
            + Self.line("ubiquity_received_bytes_total", "counter", "Bytes of request bodies.", received)
            + Self.line("ubiquity_sent_bytes_total", "counter", "Bytes of answer bodies.", sent)
            + Self.line("ubiquity_connections", "gauge", "Open connections.", connections)
            + Self.line(
                "ubiquity_refused_connections_total", "counter",
                "Connections closed because their address had too many.", refusedConnections)
            + Self.line(
                "ubiquity_failed_sign_ins_total", "counter", "Requests with an unknown token.", failedSignIns)
            + Self.line("ubiquity_event_streams", "gauge", "Open event streams.", eventStreams)
    }

    private static func line(
        _ name: String, _ type: String, _ help: String, _ value: borrowing Atomic<Int>
    ) -> String {
        "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n\(name) \(value.load(ordering: .relaxed))\n"
    }
}
