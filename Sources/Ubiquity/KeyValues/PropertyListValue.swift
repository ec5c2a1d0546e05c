public import FoundationEssentials
import UbiquityCore

/// A value of a key-value store: one of the types of a property list. Encode other types as data.
///
/// - Source: the classes of a property list.
public indirect enum PropertyListValue: Hashable, Sendable {
    /// A text.
    case string(String)
    /// A whole number.
    case integer(Int64)
    /// A floating-point number, finite.
    case real(Double)
    /// A flag.
    case bool(Bool)
    /// A moment.
    case date(Date)
    /// Bytes.
    case data(Data)
    /// Values in order.
    case array([PropertyListValue])
    /// Values by name.
    case dictionary([String: PropertyListValue])

    init(_ value: PropertyValue) {
        switch value {
        case .string(let text): self = .string(text)
        case .integer(let number): self = .integer(number)
        case .real(let number): self = .real(number)
        case .bool(let flag): self = .bool(flag)
        case .date(let seconds): self = .date(Date(timeIntervalSince1970: seconds))
        case .data(let bytes): self = .data(Data(bytes))
        case .array(let values): self = .array(values.map(PropertyListValue.init))
        case .dictionary(let values): self = .dictionary(values.mapValues(PropertyListValue.init))
        }
    }

    var property: PropertyValue {
        switch self {
        case .string(let text): .string(text)
        case .integer(let number): .integer(number)
        case .real(let number): .real(number)
        case .bool(let flag): .bool(flag)
        case .date(let date): .date(date.timeIntervalSince1970)
        case .data(let data): .data([UInt8](data))
        case .array(let values): .array(values.map(\.property))
        case .dictionary(let values): .dictionary(values.mapValues(\.property))
        }
    }
}

extension PropertyListValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(floatLiteral value: Double) { self = .real(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(arrayLiteral elements: PropertyListValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, PropertyListValue)...) {
        self = .dictionary(Dictionary(elements) { $1 })
    }
}
