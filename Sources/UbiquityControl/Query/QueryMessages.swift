import UbiquityCore

// Messages of queries at the local socket.

/// Where a query looks.
package enum QueryScope: String, Codable, CaseIterable, Hashable, Sendable {
    /// `Documents/` and its contents, downloaded or not.
    case documents
    /// All other synced items, downloaded or not.
    case data
    /// Items completely on this device, synced or not.
    case local
}

/// `ControlRoute.queries`: answered by a server-sent stream of `QueryNews`.
package struct QueryRequest: Codable, Hashable, Sendable {
    /// Results are in one of these; if empty or not given: all synced items.
    package var scopes: [QueryScope]
    /// As in `QueryPredicate`; empty, or not given: all items.
    package var predicate: String
    /// Only this folder and its contents, from the mount's root, without a slash in front.
    package var folder: String?
    /// Whether updates follow; if not, the answer ends with `gathered`.
    package var isLive: Bool
    /// In seconds: how long changes gather before they are sent together (0.25 if not given; 0.02 to 60).
    package var interval: Double?

    package init(
        scopes: [QueryScope] = [], predicate: String = "", folder: String? = nil, isLive: Bool,
        interval: Double? = nil
    ) {
        self.scopes = scopes
        self.predicate = predicate
        self.folder = folder
        self.isLive = isLive
        self.interval = interval
    }

    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        scopes = try values.decodeIfPresent([QueryScope].self, forKey: .scopes) ?? []
        predicate = try values.decodeIfPresent(String.self, forKey: .predicate) ?? ""
        folder = try values.decodeIfPresent(String.self, forKey: .folder)
        isLive = try values.decode(Bool.self, forKey: .isLive)
        interval = try values.decodeIfPresent(Double.self, forKey: .interval)
    }
}

/// One message to the client.
package struct QueryNews: Codable, Hashable, Sendable {
    package enum Kind: String, Codable, CaseIterable, Hashable, Sendable {
        /// The first message: the index is being read.
        case gathering
        /// Some results, in `added`. An item found twice because it moved meanwhile is in `changed`, or in `removed` if
        /// it is no result any more.
        case items
        /// All results have been sent; updates follow.
        case gathered
        /// Changes since. A long update comes in several messages, all but the last with `isPart`; if an item is in two
        /// of them, the later one counts.
        case update
    }

    package var kind: Kind
    package var added: [MetadataRecord]?
    package var changed: [MetadataRecord]?
    /// Ids of items that are no results any more.
    package var removed: [String]?
    package var isPart: Bool?
    /// Number of results gathered.
    package var count: Int?

    package init(_ kind: Kind) { self.kind = kind }

    /// Items in one message: each has a path of up to 4096 bytes and error texts, and a line is 4 MiB at most.
    package static let maximumItems = 200
}

/// The properties of one item, without reading its content.
package struct MetadataRecord: Codable, Hashable, Sendable {
    package var item: ItemReport
    /// Seconds since 1970-01-01 UTC.
    package var createdAt: Double
    package var modifiedAt: Double
    /// The last use on this device. Nil from a daemon that does not report it.
    package var usedAt: Double?

    package init(item: ItemReport, createdAt: Double, modifiedAt: Double, usedAt: Double? = nil) {
        self.item = item
        self.createdAt = createdAt
        self.modifiedAt = modifiedAt
        self.usedAt = usedAt
    }

    package var id: String { item.itemID ?? item.path }

    /// The last part of the path.
    package var name: String {
        String(decoding: item.path.utf8.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    private enum Key: String, CodingKey {
        case createdAt
        case modifiedAt
        case usedAt
    }

    // One flat object, as `ItemReport` is.
    package init(from decoder: any Decoder) throws {
        item = try ItemReport(from: decoder)
        let container = try decoder.container(keyedBy: Key.self)
        createdAt = try container.decode(Double.self, forKey: .createdAt)
        modifiedAt = try container.decode(Double.self, forKey: .modifiedAt)
        usedAt = try container.decodeIfPresent(Double.self, forKey: .usedAt)
    }

    package func encode(to encoder: any Encoder) throws {
        try item.encode(to: encoder)
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(createdAt, forKey: .createdAt)
        try container.encode(modifiedAt, forKey: .modifiedAt)
        try container.encodeIfPresent(usedAt, forKey: .usedAt)
    }

    /// The media type of the item.
    package var contentType: String { ContentType.of(name, kind: item.kind, isPackage: item.isPackage) }

    /// The value of a query key.
    package func value(of key: QueryKey) -> QueryValue? {
        switch key {
        case .name: .text(name)
        case .path: .text(item.path)
        case .kind: .text(item.kind)
        case .suffix: .text(Self.suffix(of: name))
        case .size: .number(Double(item.size))
        case .created: .time(createdAt)
        case .modified: .time(modifiedAt)
        case .used: usedAt.map(QueryValue.time)
        case .contentType: .text(contentType)
        case .isDownloaded: .flag(item.downloadingStatus != .notDownloaded)
        case .status(let attribute): value(of: attribute)
        }
    }

    private func value(of attribute: StatusAttribute) -> QueryValue? {
        switch attribute {
        case .itemID: item.itemID.map(QueryValue.text)
        case .isUbiquitous: .flag(item.isUbiquitous)
        case .isExcludedFromSync: .flag(item.isExcludedFromSync)
        case .isPackage: .flag(item.isPackage)
        case .isPinned: .flag(item.isPinned)
        case .hasUnresolvedConflicts: .flag(item.hasUnresolvedConflicts)
        case .conflictCount: .number(Double(item.conflictCount))
        default: transferValue(of: attribute)
        }
    }

    private func transferValue(of attribute: StatusAttribute) -> QueryValue? {
        switch attribute {
        case .downloadingStatus: .text(item.downloadingStatus.rawValue)
        case .isDownloading: .flag(item.isDownloading)
        case .percentDownloaded: .number(item.percentDownloaded)
        case .downloadingError: item.downloadingError.map(QueryValue.text)
        case .downloadRequested: .flag(item.downloadRequested)
        case .isUploaded: .flag(item.isUploaded)
        case .isUploading: .flag(item.isUploading)
        case .percentUploaded: .number(item.percentUploaded)
        case .uploadingError: item.uploadingError.map(QueryValue.text)
        default: nil
        }
    }

    /// The text after the last dot of a name, unless the dot is the first character.
    package static func suffix(of name: String) -> String {
        guard let dot = name.utf8.lastIndex(of: UInt8(ascii: ".")), dot > name.startIndex else { return "" }
        return String(decoding: name.utf8[name.utf8.index(after: dot)...], as: UTF8.self)
    }
}
