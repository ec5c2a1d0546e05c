package import UbiquityCore
internal import UbiquitySystem

/// The address of a cloud.
package enum CloudAddress: Hashable, Sendable, CustomStringConvertible {
    /// `http://host:port` or `https://host:port`, without a path. `certificates` are the only trusted authorities
    /// (PEM), for a cloud with a self-made certificate. Nil trusts the system's.
    case web(url: String, certificates: String?)
    /// A Unix socket's path, of any length.
    case unixSocket(path: String)

    /// Parses a URL, a path that begins with "/", or "unix:PATH".
    /// - Throws: `.invalid`.
    package init(_ text: String, certificates: String? = nil) throws(UbiquityError) {
        if text.hasPrefix("/") {
            self = .unixSocket(path: text)
        } else if text.hasPrefix("unix:") {
            self = .unixSocket(path: String(text.dropFirst(5)))
        } else {
            self = .web(url: try Self.checkedURL(text), certificates: certificates)
        }
    }

    /// Whether data can be read in transit: HTTP without TLS to a host that may be another machine.
    package var isExposed: Bool {
        guard case .web(let url, _) = self, url.hasPrefix("http://") else { return false }
        let authority = url.dropFirst("http://".count)
        let port = authority.lastIndex(of: ":").flatMap { authority[$0...].contains("]") ? nil : $0 }
        return !InternetAddress.isLoopback(host: String(authority[..<(port ?? authority.endIndex)]))
    }

    package var description: String {
        switch self {
        case .web(let url, _): url
        case .unixSocket(let path): path
        }
    }

    private static func checkedURL(_ text: String) throws(UbiquityError) -> String {
        guard let scheme = ["http://", "https://"].first(where: { text.lowercased().hasPrefix($0) }) else {
            throw UbiquityError(.invalid, "\"\(text)\" is not a cloud's address", remedy: "for example http://nas:7070")
        }
        var authority = text.dropFirst(scheme.count)
        while authority.last == "/" { authority.removeLast() }
        let isPlain = authority.utf8.allSatisfy { byte in
            byte > 0x20 && byte < 0x7F && !Array("/?#@\"<>\\^`{|}%".utf8).contains(byte)
        }
        guard !authority.isEmpty, isPlain, hasPossiblePort(authority) else {
            throw UbiquityError(
                .invalid, "\"\(text)\" is not scheme, host and port", remedy: "for example http://nas:7070")
        }
        return scheme + authority
    }

    /// Whether the part after the host, if any, is a port. An IPv6 address has brackets.
    private static func hasPossiblePort(_ authority: Substring) -> Bool {
        guard let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") else { return true }
        return UInt16(authority[authority.index(after: colon)...]).map { $0 > 0 } ?? false
    }
}
