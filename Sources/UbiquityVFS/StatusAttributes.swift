package import UbiquityCore
package import UbiquityIndex

/// The attributes `user.ubiquity.…` that are computed from what is known of an item. All that are listed are on every
/// item, so that a listing shows the same names everywhere; one that says nothing is empty.
package enum StatusAttribute: String, CaseIterable, Sendable {
    case isUbiquitous = "is-ubiquitous"
    case downloadingStatus = "downloading-status"
    case isDownloading = "is-downloading"
    case percentDownloaded = "percent-downloaded"
    case downloadingError = "downloading-error"
    case downloadRequested = "download-requested"
    case isUploaded = "is-uploaded"
    case isUploading = "is-uploading"
    case percentUploaded = "percent-uploaded"
    case uploadingError = "uploading-error"
    case hasUnresolvedConflicts = "has-unresolved-conflicts"
    case conflictCount = "conflict-count"
    case isExcludedFromSync = "is-excluded-from-sync"
    case isPackage = "is-package"
    case isPinned = "is-pinned"
    case itemID = "item-id"
    case versionID = "version-id"
    case container = "container"
    // Not listed: for programs that ask for it.
    /// `UbiquityError.Code`'s name.
    case downloadingErrorCode = "downloading-error-code"
    case uploadingErrorCode = "uploading-error-code"
    /// On the top folder alone.
    case identityToken = "identity-token"

    static let listed = allCases.filter { ![.downloadingErrorCode, .uploadingErrorCode, .identityToken].contains($0) }

    /// Whether it says something of the conflicts; to count those in a folder takes a while where there are many.
    var countsConflicts: Bool { self == .hasUnresolvedConflicts || self == .conflictCount }

    /// What all have in front, and the control attributes too.
    static let prefix = "user.ubiquity."

    var name: [UInt8] { Array((Self.prefix + rawValue).utf8) }

    init?(name: [UInt8]) {
        let prefix = Array(Self.prefix.utf8)
        guard name.starts(with: prefix) else { return nil }
        self.init(rawValue: String(decoding: name.dropFirst(prefix.count), as: UTF8.self))
    }
}

/// The attributes that are set to act. They have no value to read and are not listed.
enum ControlAttribute: String {
    case download
    case evict
    case pinned
    case resolved

    init?(name: [UInt8]) {
        let prefix = Array(StatusAttribute.prefix.utf8)
        guard name.starts(with: prefix) else { return nil }
        self.init(rawValue: String(decoding: name.dropFirst(prefix.count), as: UTF8.self))
    }
}

/// What is known of an item when its status is asked.
package struct ItemFacts: Sendable {
    package var row: ItemRow
    /// The cloud's last word on it.
    package var remote: RemoteItem?
    /// Unresolved conflicts of it, or of what is in it.
    package var conflicts: Int
    package var transfer: ItemTransfer?
    package var container: ContainerID
    /// Of a package: the facts of itself and of all that is in it, of which its state is made.
    package var members: [ItemFacts]?

    package init(
        row: ItemRow, remote: RemoteItem?, conflicts: Int, transfer: ItemTransfer?, container: ContainerID,
        members: [ItemFacts]? = nil
    ) {
        self.row = row
        self.remote = remote
        self.conflicts = conflicts
        self.transfer = transfer
        self.container = container
        self.members = members
    }

    /// Members of a package whose state is looked at for that of the whole.
    package static let summarisedMembers = 10_000

    func value(of attribute: StatusAttribute) -> [UInt8] { Array(text(of: attribute).utf8) }

    package func text(of attribute: StatusAttribute) -> String {
        switch attribute {
        case .isUbiquitous: flag(!row.staysHere)
        case .isExcludedFromSync: flag(row.staysHere)
        case .isPackage: flag(members != nil)
        case .isPinned: flag(row.isPinned)
        case .itemID: row.id.description
        case .versionID: row.version?.description ?? ""
        case .container: container.name
        case .hasUnresolvedConflicts: flag(conflicts > 0)
        case .conflictCount: String(conflicts)
        default: transferText(of: attribute)
        }
    }

    private func transferText(of attribute: StatusAttribute) -> String {
        if let members { return Self.summary(of: attribute, members) }
        return switch attribute {
        case .downloadingStatus: downloadingStatus
        case .isDownloading: flag(transfer?.isDownloading ?? false)
        case .percentDownloaded: isHere ? "100" : String(transfer?.percentDownloaded ?? 0)
        case .downloadingError: isHere ? "" : transfer?.downloadingError?.description ?? ""
        case .downloadRequested: flag(row.flags.contains(.downloadRequested) || transfer?.isDownloading ?? false)
        case .downloadingErrorCode: isHere ? "" : transfer?.downloadingError?.code.rawValue ?? ""
        case .uploadingErrorCode: isUploaded ? "" : transfer?.uploadingError?.code.rawValue ?? ""
        case .isUploaded: flag(isUploaded)
        case .isUploading: flag(transfer?.isUploading ?? false)
        case .percentUploaded: isUploaded ? "100" : String(transfer?.percentUploaded ?? 0)
        case .uploadingError: isUploaded ? "" : transfer?.uploadingError?.description ?? ""
        default: ""
        }
    }

    /// The state of a package: it is here, or at the cloud, when all of it is.
    private static func summary(of attribute: StatusAttribute, _ members: [ItemFacts]) -> String {
        let texts = members.map { $0.transferText(of: attribute) }
        switch attribute {
        case .downloadingStatus:
            return ["not-downloaded", "downloaded"].first(where: texts.contains) ?? "current"
        case .isUploaded: return texts.allSatisfy { $0 == "1" } ? "1" : "0"
        case .isDownloading, .isUploading, .downloadRequested: return texts.contains("1") ? "1" : "0"
        case .percentDownloaded, .percentUploaded: return percent(texts, members)
        default: return texts.first { !$0.isEmpty } ?? ""
        }
    }

    /// The mean by size; 100 only when all of it is.
    private static func percent(_ texts: [String], _ members: [ItemFacts]) -> String {
        let parts = zip(texts, members).filter { $1.row.kind == .file }.map { (Double($0) ?? 0, Double($1.row.size)) }
        guard parts.contains(where: { $0.0 < 100 }) else { return "100" }
        let whole = parts.reduce(0) { $0 + $1.1 }
        let done = parts.reduce(0) { $0 + $1.0 * $1.1 }
        return String(whole > 0 ? min(99, Int(done / whole)) : 0)
    }

    private var isHere: Bool { row.kind != .file || row.contentState == .complete }

    /// A file that is open for writing may differ from what the cloud has; of one that another device made, the cloud
    /// may have the name and not yet the content.
    private var isUploaded: Bool {
        guard !row.staysHere, row.dirty.isEmpty, !row.isWriting else { return false }
        guard row.kind == .file, let content = remote?.content, content.version == row.version else { return true }
        return content.isAvailable
    }

    private var downloadingStatus: String {
        guard isHere else { return "not-downloaded" }
        guard let newest = remote?.content?.version, !row.dirty.contains(.content) else { return "current" }
        return newest == row.version ? "current" : "downloaded"
    }

    private func flag(_ value: Bool) -> String { value ? "1" : "0" }
}
