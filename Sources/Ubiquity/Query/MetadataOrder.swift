import UbiquityControl
import UbiquityCore

/// The order of a query's results: by the descriptors, then as a tree is listed. So the order is always the same.
struct MetadataOrder: Sendable {
    let descriptors: [MetadataQuery.SortDescriptor]

    func precedes(_ left: MetadataItem, _ right: MetadataItem) -> Bool {
        for descriptor in descriptors {
            let key = descriptor.attribute.key
            let (first, second) = (left.record.value(of: key), right.record.value(of: key))
            if Self.precedes(first, second) { return descriptor.order == .forward }
            if Self.precedes(second, first) { return descriptor.order == .reverse }
        }
        if !left.record.item.path.isSamePath(as: right.record.item.path) {
            return Self.isListed(left.record.item.path, before: right.record.item.path)
        }
        return (left.id.mountPoint, left.id.item) < (right.id.mountPoint, right.id.item)
    }

    /// An item without a value comes first.
    private static func precedes(_ left: QueryValue?, _ right: QueryValue?) -> Bool {
        switch (left, right) {
        case (nil, .some): true
        case (.text(let left)?, .text(let right)?): left.utf8.lexicographicallyPrecedes(right.utf8)
        case (.number(let left)?, .number(let right)?), (.time(let left)?, .time(let right)?): left < right
        case (.flag(let left)?, .flag(let right)?): !left && right
        default: false
        }
    }

    /// Lists a folder before its members, and the members before the folder's next sibling, as if "/" were the smallest
    /// byte.
    static func isListed(_ left: String, before right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8) { first, second in
            guard first != second else { return false }
            return first == UInt8(ascii: "/") || second != UInt8(ascii: "/") && first < second
        }
    }
}
