internal import UbiquityCore

/// The fields of a form or of a query: `application/x-www-form-urlencoded`.
struct WebForm: Sendable {
    private var fields: [(name: String, value: String)] = []

    /// Throws `.invalid`.
    init(encoded text: String) throws(UbiquityError) {
        for field in text.split(separator: "&") {
            guard fields.count < WebLimits.formFields else {
                throw UbiquityError(.tooLarge, "a form has at most \(WebLimits.formFields) fields")
            }
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            fields.append((try Self.decoded(parts[0]), parts.count > 1 ? try Self.decoded(parts[1]) : ""))
        }
    }

    init() {}

    /// The first field of this name. Nil if there is none, or if it is empty.
    subscript(_ name: String) -> String? {
        fields.first { $0.name == name }.flatMap { $0.value.isEmpty ? nil : $0.value }
    }

    func all(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    mutating func add(_ name: String, _ value: String) { fields.append((name, value)) }

    /// Throws `.invalid` if the field is missing.
    func required(_ name: String) throws(UbiquityError) -> String {
        guard let value = self[name] else { throw UbiquityError(.invalid, "the field \"\(name)\" is missing") }
        return value
    }

    /// Throws `.invalid` or `.invalidName` if the field is missing or cannot be a name.
    func name(_ field: String = "name") throws(UbiquityError) -> ItemName {
        try Self.name(try required(field))
    }

    /// Throws `.invalidName` or `.nameTooLong` with the reason.
    static func name(_ text: String) throws(UbiquityError) -> ItemName {
        do throws(ItemName.Invalid) {
            let name = try ItemName(text)
            guard name != .versionsFolder else { throw .reserved }
            return name
        } catch {
            switch error {
            case .tooLong:
                throw UbiquityError(.nameTooLong, "a name has at most \(Limits.maximumNameLength) bytes")
            case .empty: throw UbiquityError(.invalidName, "the name is empty")
            case .notUTF8: throw UbiquityError(.invalidName, "the name is not UTF-8")
            case .reserved:
                throw UbiquityError(
                    .invalidName, "\"\(text)\" cannot be a name",
                    remedy: "use a name without \"/\" that is not \".\", \"..\" or \".versions\"")
            }
        }
    }

    private static func decoded(_ text: Substring) throws(UbiquityError) -> String {
        guard let value = PercentEncoding.decode(text.replacing("+", with: " ")) else {
            throw UbiquityError(.invalid, "a field of the form is not percent-encoded UTF-8")
        }
        return value
    }
}
