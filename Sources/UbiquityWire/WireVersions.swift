internal import FoundationEssentials
package import UbiquityCore

extension RemoteVersion {
    init(message: PBVersion) throws(UbiquityError) {
        self.init(
            content: try RemoteContent(message: message.content), kind: try Kind(wire: message.kind),
            modifiedAt: Timestamp(nanoseconds: message.modifiedAt), savedAt: Timestamp(nanoseconds: message.savedAt),
            savedName: try ItemName(wire: message.savedName),
            baseVersion: message.hasBaseVersion ? try VersionID(wire: message.baseVersion, "a base version's id") : nil)
    }

    var message: PBVersion {
        var result = PBVersion()
        result.content = content.message
        result.kind = kind.wire
        result.modifiedAt = modifiedAt.nanoseconds
        result.savedAt = savedAt.nanoseconds
        result.savedName = savedName.description
        if let baseVersion { result.baseVersion = baseVersion.data }
        return result
    }

    static func list(_ messages: [PBVersion]) throws(UbiquityError) -> [RemoteVersion] {
        var result = [RemoteVersion]()
        result.reserveCapacity(messages.count)
        for message in messages where message.kind.isKnown { result.append(try RemoteVersion(message: message)) }
        return result
    }
}

extension PBVersionKind {
    /// Whether this version of the program knows the value. A missing value is an error.
    fileprivate var isKnown: Bool {
        if case .UNRECOGNIZED = self { false } else { true }
    }
}

extension RemoteVersion.Kind {
    init(wire kind: PBVersionKind) throws(UbiquityError) {
        switch kind {
        case .current: self = .current
        case .history: self = .history
        case .conflict: self = .conflict
        case .resolved: self = .resolved
        case .unspecified, .UNRECOGNIZED: throw .malformed("a version's kind is not known: \(kind.rawValue)")
        }
    }

    var wire: PBVersionKind {
        switch self {
        case .current: .current
        case .history: .history
        case .conflict: .conflict
        case .resolved: .resolved
        }
    }
}

/// The answer to a query for the versions of an item.
package struct ItemVersions: Hashable, Sendable {
    package var versions: [RemoteVersion]
    /// Whether the cloud has versions beside the current one that it cannot read.
    package var isIncomplete: Bool

    package init(_ versions: [RemoteVersion], isIncomplete: Bool = false) {
        self.versions = versions
        self.isIncomplete = isIncomplete
    }
}

extension ItemVersions: MessageConvertible {
    static var shape: MessageShape { .versions }

    init(message: PBVersions) throws(UbiquityError) {
        guard message.versions.count <= Limits.maximumVersionsPerAnswer else {
            throw .malformed("\(message.versions.count) versions of one item")
        }
        self.init(try RemoteVersion.list(message.versions), isIncomplete: message.isIncomplete)
    }

    func message() -> PBVersions {
        var result = PBVersions()
        result.versions = versions.map(\.message)
        result.isIncomplete = isIncomplete
        return result
    }
}

extension TrashPage: MessageConvertible {
    static var shape: MessageShape { .trash }

    init(message: PBTrashPage) throws(UbiquityError) {
        guard message.items.count <= Limits.maximumTrashPage else {
            throw .malformed("\(message.items.count) deleted items in one page")
        }
        var items = [TrashedItem]()
        for each in message.items {
            items.append(
                TrashedItem(
                    item: try RemoteItem(message: each.item), deletedAt: Timestamp(nanoseconds: each.deletedAt),
                    device: try DeviceID(wire: each.device, "a device's id"), path: each.path))
        }
        self.init(items: items, hasMore: message.hasMore_p)
    }

    func message() throws(UbiquityError) -> PBTrashPage {
        var result = PBTrashPage()
        for each in items {
            var item = PBTrashedItem()
            item.item = try each.item.message()
            item.deletedAt = each.deletedAt.nanoseconds
            item.device = each.device.data
            item.path = each.path
            result.items.append(item)
        }
        result.hasMore_p = hasMore
        return result
    }
}

// MARK: Decisions about versions

extension PBVersionActions {
    init(_ actions: [VersionAction]) {
        self.init()
        self.actions = actions.map(\.message)
    }

    func versionActions() throws(UbiquityError) -> [VersionAction] {
        var result = [VersionAction]()
        for action in actions { result.append(try VersionAction(message: action)) }
        return result
    }
}

extension VersionAction {
    init(message: PBVersionAction) throws(UbiquityError) {
        let version = try VersionID(wire: message.version, "a version's id")
        switch message.kind {
        case .resolve: self = .resolve(version)
        case .remove: self = .remove(version)
        case .restore:
            self = .restore(
                version, as: try VersionID(wire: message.newVersion, "a new version's id"),
                base: message.hasBaseVersion ? try VersionID(wire: message.baseVersion, "a base version's id") : nil)
        case .unspecified, .UNRECOGNIZED:
            throw .malformed("a decision about a version is not known: \(message.kind.rawValue)")
        }
    }

    var message: PBVersionAction {
        var result = PBVersionAction()
        result.version = version.data
        switch self {
        case .resolve: result.kind = .resolve
        case .remove: result.kind = .remove
        case .restore(_, let new, let base):
            result.kind = .restore
            result.newVersion = new.data
            if let base { result.baseVersion = base.data }
        }
        return result
    }
}
