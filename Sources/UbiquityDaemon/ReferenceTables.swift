import UbiquityControl
import UbiquityCore
import UbiquitySystem
import UbiquityVFS
import UbiquityWire

/// The tables of the reference pages in `Sources/Documentation/reference`, which `scripts/documents` writes.
package struct ReferenceTables: Encodable, Sendable {
    struct Failure: Encodable {
        var code: String
        var errno: Int32
        /// The status of the cloud's answer.
        var http: Int
        var meaning: String
        var remedy: String
    }

    struct Attribute: Encodable {
        /// "status", "control" or "version".
        var kind: String
        var name: String
        var isListed: Bool
        var values: String
        var meaning: String
    }

    let errors: [Failure]
    let attributes: [Attribute]
    let queryKeys: [String]
    let settings: [String]

    package init() {
        errors = UbiquityError.Code.allCases.map { code in
            let text = code.explanation
            return Failure(
                code: code.rawValue, errno: code.errno.rawValue, http: code.httpStatus, meaning: text.meaning,
                remedy: text.remedy)
        }
        attributes =
            StatusAttribute.allCases.map { Self.attribute("status", $0.rawValue, $0.isListed, $0.explanation) }
            + ControlAttribute.allCases.map { Self.attribute("control", $0.rawValue, false, $0.explanation) }
            + VersionAttribute.allCases.map { Self.attribute("version", $0.rawValue, true, $0.explanation) }
        queryKeys = QueryKey.allCases.map(\.rawValue)
        settings = UserConfiguration.settings
    }

    private static func attribute(
        _ kind: String, _ name: String, _ isListed: Bool, _ text: (values: String, meaning: String)
    ) -> Attribute {
        Attribute(
            kind: kind, name: StatusAttribute.prefix + name, isListed: isListed, values: text.values,
            meaning: text.meaning)
    }
}
