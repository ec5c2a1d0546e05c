import Glibc

/// A numeric IPv4 or IPv6 address. The IPv6 form of an IPv4 address is the same address.
package struct InternetAddress: Hashable, Sendable {
    /// 4 or 16 bytes.
    private let bytes: [UInt8]

    /// Parses text as inet_pton(3) does, with or without a zone ("%eth0"); nil for anything else.
    package init?(_ text: String) {
        let plain = String(text.prefix { $0 != "%" })
        if let bytes = Self.bytes(of: plain, AF_INET, count: 4) {
            self.bytes = bytes
        } else if let bytes = Self.bytes(of: plain, AF_INET6, count: 16) {
            let isMapped = bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10] == 0xFF && bytes[11] == 0xFF
            self.bytes = isMapped ? Array(bytes[12...]) : bytes
        } else {
            return nil
        }
    }

    private static func bytes(of text: String, _ family: Int32, count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        let isAddress = bytes.withUnsafeMutableBytes { raw in
            inet_pton(family, text, raw.baseAddress) == 1
        }
        return isAddress ? bytes : nil
    }

    /// Whether packets to it never leave this machine.
    package var isLoopback: Bool {
        bytes.count == 4 ? bytes[0] == 127 : bytes.dropLast().allSatisfy { $0 == 0 } && bytes.last == 1
    }

    /// The part that one customer of a provider cannot choose: all of an IPv4 address, the first 64 bits of an IPv6
    /// address.
    package var network: [UInt8] { Array(bytes.prefix(8)) }

    /// Returns whether a host in a URL or an option is certainly this machine: `localhost`, or a loopback address with
    /// or without brackets.
    package static func isLoopback(host: String) -> Bool {
        if host.lowercased() == "localhost" { return true }
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        return InternetAddress(isBracketed ? String(host.dropFirst().dropLast()) : host)?.isLoopback ?? false
    }
}
