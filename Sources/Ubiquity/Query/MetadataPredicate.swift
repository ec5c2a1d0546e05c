import FoundationEssentials
import UbiquityControl
import UbiquityCore

/// The condition that a query's items meet.
///
/// Write it as text (`MetadataPredicate("name like '*.txt' and size > 10M and not conflicts")`), or combine comparisons
/// with `&&`, `||` and `!`.
public struct MetadataPredicate: Hashable, Sendable, CustomStringConvertible {
    /// The error in a predicate's text, and its position.
    public struct Malformed: Error, Hashable, Sendable, CustomStringConvertible {
        public let description: String
    }

    public enum Comparison: Hashable, Sendable {
        case equal, notEqual, less, lessOrEqual, greater, greaterOrEqual

        fileprivate var asOperator: QueryComparison.Operator {
            switch self {
            case .equal: .equal
            case .notEqual: .notEqual
            case .less: .less
            case .lessOrEqual: .lessOrEqual
            case .greater: .greater
            case .greaterOrEqual: .greaterOrEqual
            }
        }
    }

    public enum TextComparison: Hashable, Sendable {
        case equal, notEqual
        /// "*" matches any characters, "?" matches one.
        case like
        case contains, beginsWith, endsWith

        fileprivate var asOperator: QueryComparison.Operator {
            switch self {
            case .equal: .equal
            case .notEqual: .notEqual
            case .like: .like
            case .contains: .contains
            case .beginsWith: .beginsWith
            case .endsWith: .endsWith
            }
        }
    }

    let predicate: QueryPredicate

    private init(_ predicate: QueryPredicate) { self.predicate = predicate }

    /// Parses a predicate. Relative times such as "now-7d" refer to the time of this call.
    ///
    /// - Throws: `Malformed` if the text is not a predicate.
    public init(_ text: String) throws(Malformed) {
        do throws(UbiquityError) {
            predicate = try QueryPredicate(parsing: text, now: Date().timeIntervalSince1970)
        } catch {
            throw Malformed(description: error.description)
        }
    }

    /// Matches every item.
    public static let all = MetadataPredicate(.constant(true))
    public static let none = MetadataPredicate(.constant(false))

    public static func name(
        _ comparison: TextComparison, _ text: String, caseInsensitive: Bool = false
    ) -> MetadataPredicate {
        .attribute(.fsName, comparison, text, caseInsensitive: caseInsensitive)
    }

    /// Matches the items in a folder, at any depth.
    ///
    /// - Parameter path: The path from the container's root.
    public static func within(_ path: String) -> MetadataPredicate {
        let folder = path.split(separator: "/").joined(separator: "/")
        return MetadataPredicate(.comparison(QueryComparison(.path, .within, [.text(folder)])))
    }

    /// Compares a text attribute. Matches nothing for other attributes.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: TextComparison, _ text: String, caseInsensitive: Bool = false
    ) -> MetadataPredicate {
        let values: [QueryKey.Values] = [.text, .path]
        guard values.contains(attribute.key.values) else { return .none }
        return MetadataPredicate(
            .comparison(
                QueryComparison(attribute.key, comparison.asOperator, [.text(text)], ignoresCase: caseInsensitive)))
    }

    /// Compares a number attribute. Matches nothing for other attributes.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: Comparison, _ number: Double
    ) -> MetadataPredicate {
        let values: [QueryKey.Values] = [.size, .number]
        guard values.contains(attribute.key.values), number.isFinite else { return .none }
        return MetadataPredicate(
            .comparison(QueryComparison(attribute.key, comparison.asOperator, [.number(number)])))
    }

    /// Compares a date attribute. Matches nothing for other attributes. A date outside the years 1 to 9999 is replaced
    /// by the nearest.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: Comparison, _ date: Date
    ) -> MetadataPredicate {
        guard attribute.key.values == .time, !date.timeIntervalSince1970.isNaN else { return .none }
        return MetadataPredicate(
            .comparison(
                QueryComparison(attribute.key, comparison.asOperator, [.moment(date.timeIntervalSince1970)])))
    }

    /// Matches items whose flag is true. Matches nothing for other attributes.
    public static func attribute(_ attribute: MetadataAttribute) -> MetadataPredicate {
        guard attribute.key.values == .flag else { return .none }
        return MetadataPredicate(.comparison(QueryComparison(attribute.key, .equal, [.flag(true)])))
    }

    public static func downloadingStatus(_ status: UbiquitousItemDownloadingStatus) -> MetadataPredicate {
        let word: ItemReport.DownloadingStatus
        switch status {
        case .notDownloaded: word = .notDownloaded
        case .downloaded: word = .downloaded
        case .current: word = .current
        }
        return MetadataPredicate(
            .comparison(QueryComparison(.downloadingStatus, .equal, [.text(word.rawValue)])))
    }

    public static func && (left: MetadataPredicate, right: MetadataPredicate) -> MetadataPredicate {
        MetadataPredicate(left.predicate.and(right.predicate))
    }

    public static func || (left: MetadataPredicate, right: MetadataPredicate) -> MetadataPredicate {
        MetadataPredicate(left.predicate.or(right.predicate))
    }

    public static prefix func ! (predicate: MetadataPredicate) -> MetadataPredicate {
        MetadataPredicate(.not(predicate.predicate))
    }

    /// The predicate as text; parsing it gives an equal predicate.
    public var description: String { predicate.description }
}
