import Testing
import UbiquityControl

/// Media types from names, and lengths of time.
@Suite struct ContentTypeTests {
    @Test("LX-07: the type follows from the kind and the last extension, whatever its case", arguments: [
        ("a.txt", "file", "text/plain"), ("a.tar.GZ", "file", "application/gzip"), ("noext", "file", ContentType.unknown),
        (".hidden", "file", ContentType.unknown), ("d.txt", "directory", ContentType.folder),
        ("l.txt", "symlink", "inode/symlink"), ("p", "special", "inode/x-special"),
    ]) func types(name: String, kind: String, type: String) {
        #expect(ContentType.of(name, kind: kind) == type)
    }

    @Test("a package has a type of its own")
    func packages() { #expect(ContentType.of("a.pages", kind: "directory", isPackage: true) == ContentType.package) }

    @Test("LX-05: last use and content type are keys of queries")
    func keys() throws {
        var item = ItemReport(path: "d/photo.JPG", kind: "file", size: 1, container: "c")
        item.itemID = "i"
        let record = MetadataRecord(item: item, createdAt: 1, modifiedAt: 2, usedAt: 1000)
        for text in ["content-type like 'image/*'", "type == 'image/jpeg'", "used < now-30d", "last-used == now-1w"] {
            let now = text.contains("1w") ? 1000 + 604_800.0 : 1000 + 31 * 86_400
            #expect(try QueryPredicate(parsing: text, now: now).holds { record.value(of: $0) }, "\(text)")
        }
        let old = MetadataRecord(item: item, createdAt: 1, modifiedAt: 2)
        #expect(try !QueryPredicate(parsing: "used < now", now: 5).holds { old.value(of: $0) })
        let coded = try ControlCodec.decode(MetadataRecord.self, from: ControlCodec.encode(record))
        #expect(coded == record)
    }

    @Test("lengths of time have a unit", arguments: [
        ("90s", 90), ("1.5h", 5400), ("30d", 2_592_000), ("4w", 2_419_200), ("5", nil), ("d", nil), ("-3d", nil),
        ("3 d", nil), ("", nil), ("999999999999w", 100 * 365.25 * 86_400),
    ] as [(String, Double?)]) func times(text: String, seconds: Double?) {
        #expect(TimeSpan.seconds(text) == seconds)
    }
}
