internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySystem

/// A stock of content ids, so that a create costs one transaction. Ids left at the end are never used: there are 2^63.
final class ContentNumbers: Sendable {
    private static let batch = 256
    private let stock = Lock<[ContentID]>([])

    func next(from index: ItemIndex) throws -> ContentID {
        if let id = stock.withLock({ $0.popLast() }) { return id }
        // In ascending order: contents created one after the other then lie together on disk.
        var fresh = try index.newContentNumbers(Self.batch).reversed().map(ContentID.init)
        let first = fresh.removeLast()
        stock.withLock { $0 += fresh }
        return first
    }
}
