internal import UbiquityCore

// Messages about an account's links, in plain JSON. Times are seconds since 1970.

/// The link to create.
package struct LinkRequest: Codable, Hashable, Sendable {
    /// The item's id.
    package var item: String
    /// The version of a file to publish; nil for the current one.
    package var version: String?
    /// Seconds until the link expires; nil for the standard time.
    package var lifetime: Double?
    package var password: String?

    package init(item: String, version: String? = nil, lifetime: Double? = nil, password: String? = nil) {
        self.item = item
        self.version = version
        self.lifetime = lifetime
        self.password = password
    }
}

/// A link that is in force, without its secret.
package struct LinkEntry: Codable, Hashable, Sendable {
    /// A number. The account's devices name the link by it.
    package var id: String
    package var container: String
    /// The item's id.
    package var item: String
    /// The item's name when it was published.
    package var name: String
    package var isFolder: Bool
    /// The published version of a file; nil for a folder.
    package var version: String?
    /// Bytes of all files, and their number.
    package var size: Int64
    package var files: Int
    package var created: Double
    package var expires: Double
    package var hasPassword: Bool
    /// Complete downloads that were begun, and the time of the last one.
    package var downloads: Int
    package var lastDownload: Double?

    package init(
        id: String, container: String, item: String, name: String, isFolder: Bool, version: String?, size: Int64,
        files: Int, created: Double, expires: Double, hasPassword: Bool, downloads: Int, lastDownload: Double?
    ) {
        self.id = id
        self.container = container
        self.item = item
        self.name = name
        self.isFolder = isFolder
        self.version = version
        self.size = size
        self.files = files
        self.created = created
        self.expires = expires
        self.hasPassword = hasPassword
        self.downloads = downloads
        self.lastDownload = lastDownload
    }
}

/// A new link. Its path is revealed once: the cloud keeps only the secret's hash.
package struct NewLink: Codable, Hashable, Sendable {
    package var link: LinkEntry
    /// The path on the cloud's server, for example "/s/0123…".
    package var path: String

    package init(link: LinkEntry, path: String) {
        self.link = link
        self.path = path
    }
}

package struct LinkList: Codable, Hashable, Sendable {
    package var links: [LinkEntry]
    package init(links: [LinkEntry]) { self.links = links }
}

/// The path of a link: a prefix and a secret of 128 bits.
package enum LinkPath {
    package static let prefix = "/s/"
    /// Hexadecimal digits of a secret.
    package static let secretLength = 32

    package static func path(of secret: String) -> String { prefix + secret }

    /// The secret in a link's URL or path; nil if there is none.
    package static func secret(in text: String) -> String? {
        let parts = text.split(whereSeparator: { "/?#".contains($0) })
        guard let mark = parts.lastIndex(of: "s"), mark + 1 < parts.count else { return nil }
        return isSecret(String(parts[mark + 1])) ? String(parts[mark + 1]) : nil
    }

    package static func isSecret(_ text: String) -> Bool {
        text.utf8.count == secretLength && Hex.decode(text) != nil
    }
}
