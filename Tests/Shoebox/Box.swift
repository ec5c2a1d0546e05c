import FoundationEssentials
import GRDB
import Ubiquity
import UbiquityDatabase

/// The shoebox: a database, and the files that its rows name.
final class Shoebox: Sendable {
    /// The length of a preview. A real program scales the picture.
    private static let previewLength = 64

    private let database: SyncedDatabase
    private let files: ExternalFiles

    init(in folder: URL) throws {
        database = try SyncedDatabase(named: "Shoebox", in: folder, migrator: ShoeboxSchema.migrator)
        files = try ExternalFiles(of: "Shoebox", in: folder)
    }

    func close() async throws { try await database.close() }

    // MARK: Changes

    /// The files come first, so that no row names a missing file.
    func add(_ url: URL, album: String?) async throws {
        let data = try Data(contentsOf: url)
        let photo = Photo(
            id: UUID().uuidString, name: url.lastPathComponent, album: album, rating: 0,
            picture: try files.add(data, suffix: ".picture"),
            preview: try files.add(data.prefix(Self.previewLength), suffix: ".preview"))
        try await database.write { db in
            if let album { try db.execute(sql: "INSERT OR IGNORE INTO album (title) VALUES (?)", arguments: [album]) }
            try photo.insert(db)
        }
    }

    func rate(_ name: String, _ rating: Int) async throws {
        try await database.write { db in
            try db.execute(sql: "UPDATE photo SET rating = ? WHERE name = ?", arguments: [rating, name])
        }
    }

    func tag(_ name: String, _ word: String) async throws {
        try await database.write { db in
            try db.execute(
                sql: "INSERT OR IGNORE INTO keyword (photo, word) SELECT id, ? FROM photo WHERE name = ?",
                arguments: [word, name])
        }
    }

    // MARK: Reading

    func list() async throws -> [String] {
        // The newest rows of other devices, if they are here already.
        try await database.synchronize()
        return try database.read { db in
            try Row.fetchAll(db, sql: """
                SELECT name, album, rating, preview, group_concat(word, ' ') AS words
                FROM photo LEFT JOIN keyword ON keyword.photo = photo.id GROUP BY photo.id ORDER BY name
                """)
        }.map { row in
            let stars = String(repeating: "*", count: row["rating"]), words: String = row["words"] ?? ""
            let album: String = row["album"] ?? "-", name: String = row["name"]
            return "\(name)\t\(album)\t\(stars)\t\(words)\(files.isHere(row["preview"]) ? "" : "\t(no preview yet)")"
        }
    }

    /// Downloads the picture if it is a placeholder.
    func picture(_ name: String) async throws -> Data {
        let photo = try database.read { try Photo.filter(Column("name") == name).fetchOne($0) }
        guard let photo else { throw ShoeboxError(description: "no photo '\(name)'") }
        return try Data(contentsOf: files.url(of: photo.picture))
    }

    /// Prints other devices' changes, and downloads the previews of new photos, until the program ends.
    func watch(_ tell: @escaping @Sendable (String) -> Void) async {
        for await changes in database.importedChanges {
            guard let rows = changes.tables["photo"] else { continue }
            for key in rows.inserted { await fetchPreview(key, tell) }
            for key in rows.updated { tell("changed: \(name(key))") }
            for _ in rows.deleted { tell("deleted") }
        }
    }

    private func fetchPreview(_ key: [DatabaseValue], _ tell: @Sendable (String) -> Void) async {
        let photo = try? database.read { try Photo.filter(Column("id") == key.first).fetchOne($0) }
        guard let photo else { return }
        // A file that has not arrived yet is downloaded when somebody lists it.
        try? await UbiquityFileManager.default.startDownloadingUbiquitousItem(at: files.url(of: photo.preview))
        tell("new: \(photo.name)")
    }

    private func name(_ key: [DatabaseValue]) -> String {
        let photo = try? database.read { try Photo.filter(Column("id") == key.first).fetchOne($0) }
        return photo?.name ?? "?"
    }
}
