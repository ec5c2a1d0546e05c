import UbiquityCore

/// A value of the key-value store as plain JSON, for people. Dates become numbers (seconds since 1970), data becomes
/// base64 text; so plain JSON does not give every value back (`KeyValueContent` does).
package struct PlainValue: Codable, Hashable, Sendable {
    package var value: PropertyValue

    package init(_ value: PropertyValue) { self.value = value }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let flag = try? container.decode(Bool.self) {
            value = .bool(flag)
        } else if let number = try? container.decode(Int64.self) {
            value = .integer(number)
        } else if let number = try? container.decode(Double.self) {
            value = .real(number)
        } else if let text = try? container.decode(String.self) {
            value = .string(text)
        } else if let values = try? container.decode([PlainValue].self) {
            value = .array(values.map(\.value))
        } else {
            value = .dictionary(try container.decode([String: PlainValue].self).mapValues(\.value))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch value {
        case .string(let text): try container.encode(text)
        case .integer(let number): try container.encode(number)
        case .real(let number), .date(let number): try container.encode(number)
        case .bool(let flag): try container.encode(flag)
        case .data(let bytes): try container.encode(Base64.encode(bytes))
        case .array(let values): try container.encode(values.map(PlainValue.init))
        case .dictionary(let values): try container.encode(values.mapValues(PlainValue.init))
        }
    }
}
