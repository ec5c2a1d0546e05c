import Hummingbird

/// Routes for monitoring a server.
struct StatusRoutes: Sendable {
    let access: CloudAccess
    let counters: Counters

    func add(to router: Router<CloudContext>) {
        router.get("healthz") { _, _ in Response(status: .ok, text: "ok\n") }
        router.get("metrics") { _, context in
            try access.requireOwner(context, to: "read the metrics")
            return Response(
                status: .ok, mediaType: "text/plain; version=0.0.4; charset=utf-8", bytes: Array(counters.text.utf8))
        }
    }
}
