/// The item to publish.
package struct PublishRequest: Codable, Hashable, Sendable {
    package var path: String
    /// In seconds; nil for the cloud's standard time.
    package var lifetime: Double?
    /// Visitors must enter it; nil for none.
    package var password: String?

    package init(path: String, lifetime: Double? = nil, password: String? = nil) {
        self.path = path
        self.lifetime = lifetime
        self.password = password
    }
}

/// A link that is in force.
package struct LinkReport: Codable, Hashable, Sendable {
    /// Its number, for `publish revoke`.
    package var id: String
    /// The item's path now; nil if the item is not on this device.
    package var path: String?
    /// The item's name when it was published.
    package var name: String
    package var isFolder: Bool
    /// The published version of a file.
    package var version: String?
    /// In bytes.
    package var size: Int64
    package var files: Int
    package var createdAt: Double
    package var expiresAt: Double
    package var hasPassword: Bool
    package var downloads: Int

    package init(
        id: String, path: String?, name: String, isFolder: Bool, version: String?, size: Int64, files: Int,
        createdAt: Double, expiresAt: Double, hasPassword: Bool, downloads: Int
    ) {
        self.id = id
        self.path = path
        self.name = name
        self.isFolder = isFolder
        self.version = version
        self.size = size
        self.files = files
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.hasPassword = hasPassword
        self.downloads = downloads
    }
}

/// A new link.
package struct PublishReport: Codable, Hashable, Sendable {
    /// The URL. It is revealed only now. For a cloud without a web address it is the path on the cloud's socket.
    package var url: String
    /// Whether other machines can open it.
    package var isReachable: Bool
    package var link: LinkReport

    package init(url: String, isReachable: Bool, link: LinkReport) {
        self.url = url
        self.isReachable = isReachable
        self.link = link
    }
}

package struct PublishedRequest: Codable, Hashable, Sendable {
    /// The item whose links are listed; nil for all of the container.
    package var path: String?

    package init(path: String? = nil) { self.path = path }
}

/// Links in force, the newest first.
package struct PublishedReport: Codable, Hashable, Sendable {
    package var links: [LinkReport]

    package init(links: [LinkReport]) { self.links = links }
}

/// The link to revoke.
package struct UnpublishRequest: Codable, Hashable, Sendable {
    /// Its number or its URL.
    package var link: String

    package init(link: String) { self.link = link }
}
