import Hummingbird
internal import NIOCore

/// The answers with pages.
enum WebAnswer {
    /// Names come from every user who shares the account. If one were taken for HTML, it could still do nothing: no
    /// script and no style within a page is allowed.
    private static let policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        + "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

    static func page(_ page: HTML, status: HTTPResponse.Status = .ok) -> Response {
        var response = Response(status: status, mediaType: "text/html; charset=utf-8", bytes: Array(page.text.utf8))
        protect(&response, policy)
        return response
    }

    /// After a form: the browser loads the page anew.
    static func seeOther(_ path: String) -> Response {
        var response = Response(status: .seeOther, headers: [.location: path, .cacheControl: "no-store"])
        protect(&response, policy)
        return response
    }

    static func protect(_ response: inout Response, _ policy: String) {
        response.headers[.contentSecurityPolicy] = policy
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers.set("referrer-policy", "same-origin")
        response.headers.set("cross-origin-opener-policy", "same-origin")
        response.headers.set("cross-origin-resource-policy", "same-origin")
        response.headers.set("permissions-policy", "camera=(), geolocation=(), microphone=()")
    }
}
