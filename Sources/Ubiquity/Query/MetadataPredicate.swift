import FoundationEssentials
import UbiquityControl
import UbiquityCore

/// Which items a query is about.
///
/// Written as text (`MetadataPredicate("name like '*.txt' and size > 10M and not conflicts")`), or put together from
/// comparisons with `&&`, `||` and `!`.
public struct MetadataPredicate: Hashable, Sendable, CustomStringConvertible {
    /// What is wrong with a predicate's text, and where.
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
        /// "*" is any characters, "?" is one.
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

    /// From its text. Moments such as "now-7d" in it are those at this call.
    public init(_ text: String) throws(Malformed) {
        do throws(UbiquityError) {
            predicate = try QueryPredicate(parsing: text, now: Date().timeIntervalSince1970)
        } catch {
            throw Malformed(description: error.description)
        }
    }

    /// Every item.
    public static let all = MetadataPredicate(.constant(true))
    public static let none = MetadataPredicate(.constant(false))

    public static func name(
        _ comparison: TextComparison, _ text: String, caseInsensitive: Bool = false
    ) -> MetadataPredicate {
        .attribute(.fsName, comparison, text, caseInsensitive: caseInsensitive)
    }

    /// What lies in a folder, at any depth.
    /// - Parameter path: from the container's root.
    public static func within(_ path: String) -> MetadataPredicate {
        let folder = path.split(separator: "/").joined(separator: "/")
        return MetadataPredicate(.comparison(QueryComparison(.path, .within, [.text(folder)])))
    }

    /// For attributes that are text; false for others.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: TextComparison, _ text: String, caseInsensitive: Bool = false
    ) -> MetadataPredicate {
        let values: [QueryKey.Values] = [.text, .path]
        guard values.contains(attribute.key.values) else { return .none }
        return MetadataPredicate(
            .comparison(
                QueryComparison(attribute.key, comparison.asOperator, [.text(text)], ignoresCase: caseInsensitive)))
    }

    /// For attributes that are numbers; false for others.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: Comparison, _ number: Double
    ) -> MetadataPredicate {
        let values: [QueryKey.Values] = [.size, .number]
        guard values.contains(attribute.key.values), number.isFinite else { return .none }
        return MetadataPredicate(
            .comparison(QueryComparison(attribute.key, comparison.asOperator, [.number(number)])))
    }

    /// For attributes that are dates; false for others. A date outside the years 1 to 9999 is taken for the nearest.
    public static func attribute(
        _ attribute: MetadataAttribute, _ comparison: Comparison, _ date: Date
    ) -> MetadataPredicate {
        guard attribute.key.values == .time, !date.timeIntervalSince1970.isNaN else { return .none }
        return MetadataPredicate(
            .comparison(
                QueryComparison(attribute.key, comparison.asOperator, [.moment(date.timeIntervalSince1970)])))
    }

    /// For attributes that are true or false; false for others.
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

    /// The text that reads back as this.
    public var description: String { predicate.description }
}
