import FoundationEssentials
import UbiquityControl
import UbiquityCore

/// The condition that a query's items meet.
///
/// Write it as text (`MetadataPredicate("name like '*.txt' and size > 10M and not conflicts")`), or combine comparisons
/// with `&&`, `||` and `!`.
///
/// - Source: `NSPredicate` of `NSMetadataQuery`; the text has a syntax of its own.
public struct MetadataPredicate: Hashable, Sendable, CustomStringConvertible {
    /// The error in a predicate's text, and its position.
    public struct Malformed: Error, Hashable, Sendable, CustomStringConvertible {
        public let description: String
    }

    /// The comparison of a number or a date.
    public enum Comparison: Hashable, Sendable {
        /// Equal and not equal, less, greater, and each with equality.
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

    /// The comparison of a text. Texts are compared by their bytes.
    public enum TextComparison: Hashable, Sendable {
        /// The whole text is equal, or not equal.
        case equal, notEqual
        /// "*" matches any characters, "?" matches one.
        case like
        /// The text contains, begins with, or ends with another one.
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
    /// - Parameter text: The predicate, such as "size > 10M and not conflicts".
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
    /// Matches no item.
    public static let none = MetadataPredicate(.constant(false))

    /// Compares the item's name.
    ///
    /// - Parameter comparison: How the name is compared.
    /// - Parameter text: The text to compare with; a pattern for `like`.
    /// - Parameter caseInsensitive: Whether upper and lower case are equal.
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
    ///
    /// - Parameter attribute: The attribute to compare.
    /// - Parameter comparison: How it is compared.
    /// - Parameter text: The text to compare with.
    /// - Parameter caseInsensitive: Whether upper and lower case are equal.
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
    ///
    /// - Parameter attribute: The attribute to compare.
    /// - Parameter comparison: How it is compared.
    /// - Parameter number: The number to compare with.
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
    ///
    /// - Parameter attribute: The attribute to compare.
    /// - Parameter comparison: How it is compared.
    /// - Parameter date: The date to compare with.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: Comparison, _ date: Date
    ) -> MetadataPredicate {
        guard attribute.key.values == .time, !date.timeIntervalSince1970.isNaN else { return .none }
        return MetadataPredicate(
            .comparison(
                QueryComparison(attribute.key, comparison.asOperator, [.moment(date.timeIntervalSince1970)])))
    }

    /// Matches items whose flag is true. Matches nothing for other attributes.
    ///
    /// - Parameter attribute: The flag.
    public static func attribute(_ attribute: MetadataAttribute) -> MetadataPredicate {
        guard attribute.key.values == .flag else { return .none }
        return MetadataPredicate(.comparison(QueryComparison(attribute.key, .equal, [.flag(true)])))
    }

    /// Matches items with a downloading status.
    ///
    /// - Parameter status: The status.
    public static func downloadingStatus(_ status: UbiquitousItemDownloadingStatus) -> MetadataPredicate {
        let word: ItemReport.DownloadingStatus
        switch status {
        case .notDownloaded: word = .notDownloaded
        case .downloaded: word = .downloaded
        case .current: word = .current
        }
        return MetadataPredicate(
            .comparison(QueryComparison(.status(.downloadingStatus), .equal, [.text(word.rawValue)])))
    }

    /// Matches items that meet both predicates.
    ///
    /// - Parameter left: A predicate.
    /// - Parameter right: Another predicate.
    public static func && (left: MetadataPredicate, right: MetadataPredicate) -> MetadataPredicate {
        MetadataPredicate(left.predicate.and(right.predicate))
    }

    /// Matches items that meet one of the predicates, or both.
    ///
    /// - Parameter left: A predicate.
    /// - Parameter right: Another predicate.
    public static func || (left: MetadataPredicate, right: MetadataPredicate) -> MetadataPredicate {
        MetadataPredicate(left.predicate.or(right.predicate))
    }

    /// Matches items that do not meet the predicate.
    ///
    /// - Parameter predicate: A predicate.
    public static prefix func ! (predicate: MetadataPredicate) -> MetadataPredicate {
        MetadataPredicate(.not(predicate.predicate))
    }

    /// The predicate as text; parsing it gives an equal predicate.
    public var description: String { predicate.description }
}
