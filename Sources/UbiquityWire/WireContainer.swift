internal import FoundationEssentials
package import UbiquityCore

extension CloudUsage: MessageConvertible {
    init(message: PBUsage) throws(UbiquityError) {
        guard message.usedBytes >= 0, message.quotaBytes >= 0 else { throw .malformed("a usage is negative") }
        self.init(usedBytes: message.usedBytes, quotaBytes: message.quotaBytes)
    }

    func message() -> PBUsage {
        var result = PBUsage()
        result.usedBytes = usedBytes
        result.quotaBytes = quotaBytes
        return result
    }
}

extension ContainerDescription: MessageConvertible {
    init(message: PBContainer) throws(UbiquityError) {
        guard let container = ContainerID(message.container) else {
            throw .malformed("a container's name is \(ContainerID.rules)")
        }
        self.init(
            container: container, account: message.account, incarnation: message.incarnation,
            revision: try Revision(wire: message.revision), usage: try CloudUsage(message: message.usage),
            features: FormatFeatures(text: message.features.prefix(MessageLimits.maximumFeaturesLength)))
    }

    func message() -> PBContainer {
        var result = PBContainer()
        result.container = container.name
        result.account = account
        result.incarnation = incarnation
        result.revision = revision.number
        result.usage = usage.message()
        result.features = features.text
        return result
    }
}

extension ChangePage: MessageConvertible {
    static var shape: MessageShape { .page }

    init(message: PBChangePage) throws(UbiquityError) {
        var items = [RemoteItem]()
        items.reserveCapacity(message.items.count)
        for item in message.items { try Self.add(item, to: &items) }
        try self.init(message, items)
    }

    init(protobuf bytes: [UInt8]) throws(UbiquityError) {
        var items = [RemoteItem]()
        let message = try WireCodec.remaining(PBChangePage.self, of: bytes) { field, raw, range throws(UbiquityError) in
            guard field == 1 else { return false }
            try Self.add(WireCodec.message(PBItem.self, WireCodec.bytes(raw, range)), to: &items)
            return true
        }
        try self.init(message, items)
    }

    /// Skips an item of a kind that only newer versions know. The other items of the page are used.
    private static func add(_ item: PBItem, to items: inout [RemoteItem]) throws(UbiquityError) {
        if item.kind.isKnown { items.append(try RemoteItem(message: item)) }
    }

    private init(_ message: PBChangePage, _ items: [RemoteItem]) throws(UbiquityError) {
        self.init(
            items: items, revision: try Revision(wire: message.revision), hasMore: message.hasMore_p,
            isIncomplete: message.isIncomplete, mark: message.mark)
        if message.hasLinks_p { links = try LinkCounts.decode(Array(message.links)) }
    }

    func message() throws(UbiquityError) -> PBChangePage {
        var result = PBChangePage()
        result.items.reserveCapacity(items.count)
        for item in items { result.items.append(try item.message()) }
        result.revision = revision.number
        result.hasMore_p = hasMore
        result.isIncomplete = isIncomplete
        result.mark = mark
        if let links {
            result.hasLinks_p = true
            result.links = Data(LinkCounts.encode(links))
        }
        return result
    }
}

/// The container has reached this revision: one event of the stream of news.
package struct News: Hashable, Sendable {
    package var revision: Revision
    package init(revision: Revision) { self.revision = revision }
}

extension News: MessageConvertible {
    init(message: PBNews) throws(UbiquityError) { self.init(revision: try Revision(wire: message.revision)) }

    func message() -> PBNews {
        var result = PBNews()
        result.revision = revision.number
        return result
    }
}
