import Hummingbird
internal import NIOCore
internal import UbiquityCore
internal import UbiquityWire

/// The style sheet, the script and the icon of all pages. Their addresses change with their bytes, so a browser keeps
/// them for ever.
struct WebAssets: Sendable {
    static let stylePath = address("/web/style.css", StyleSheet.text)
    static let scriptPath = address("/web/script.js", PageScript.text)
    static let iconPath = address("/web/icon.svg", icon)

    func add(to router: Router<CloudContext>) {
        router.get("web/style.css") { _, _ in Self.response(StyleSheet.text, "text/css; charset=utf-8") }
        router.get("web/script.js") { _, _ in Self.response(PageScript.text, "text/javascript; charset=utf-8") }
        router.get("web/icon.svg") { _, _ in Self.response(Self.icon, "image/svg+xml") }
    }

    private static func address(_ path: String, _ text: String) -> String {
        var hash = BodyDigest()
        hash.add(Array(text.utf8))
        return "\(path)?v=\(PercentEncoding.encode(String(hash.field().dropFirst(9).prefix(12))))"
    }

    private static func response(_ text: String, _ type: String) -> Response {
        var response = Response(
            status: .ok, headers: [.contentType: type, .cacheControl: "public, max-age=31536000, immutable"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
        WebAnswer.protect(&response, "default-src 'none'; frame-ancestors 'none'; sandbox")
        return response
    }

    private static let icon = """
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><rect width="24" height="24" rx="6" fill="#2456d6"/>
        <path d="M7.5 17h9a3.7 3.7 0 0 0 .5-7.4 5 5 0 0 0-9.6.2A3.65 3.65 0 0 0 7.5 17z" fill="#fff"/></svg>
        """
}
