import GRDB
package import UbiquityCore
internal import UbiquitySystem
package import UbiquityWire

/// The containers of an account, with their names for people.
package struct AccountContainers: Sendable {
    let cloud: Cloud

    /// All containers, by name. Throws `.notFound`.
    package func list(of account: String) async throws -> [ContainerEntry] {
        try await cloud.pool.run { [cloud] in
            let number = try cloud.account(named: account)
            return try cloud.read { db in
                try Row.fetchAll(
                    db, sql: "SELECT name, displayName FROM containers WHERE account = ? ORDER BY name",
                    arguments: [number]
                ).compactMap { row in
                    row.text(0).map { ContainerEntry(name: $0, displayName: row.text(1)) }
                }
            }
        }
    }

    /// Creates a container if it is missing, and sets its display name.
    /// - Throws: `.notFound` for an unknown account, `.invalidName`, `.nameTooLong`, `.tooLarge`.
    package func set(_ container: ContainerID, _ settings: ContainerSettings, of account: String) async throws {
        if let name = settings.displayName { try Self.check(name) }
        _ = try await cloud.service(account: account, container: container).open()
        guard let name = settings.displayName else { return }
        try await cloud.pool.run { [cloud] in
            let number = try cloud.account(named: account)
            try cloud.write { db in
                try db.execute(
                    sql: "UPDATE containers SET displayName = ? WHERE account = ? AND name = ?",
                    arguments: [name.isEmpty ? nil : name, number, container.name])
            }
        }
    }

    /// A display name is also the name of a folder (`ubiquity mount --containers all`).
    private static func check(_ name: String) throws(UbiquityError) {
        guard name.utf8.count <= CloudLimits.maximumDisplayNameLength else {
            throw UbiquityError(
                .nameTooLong, "a display name has at most \(CloudLimits.maximumDisplayNameLength) bytes")
        }
        let isPrintable = name.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control && $0 != "/" }
        guard isPrintable, name.isEmpty || name.contains(where: { !$0.isWhitespace && $0 != "." }) else {
            throw UbiquityError(.invalidName, "a display name is a line of text without \"/\", not blank")
        }
    }
}
