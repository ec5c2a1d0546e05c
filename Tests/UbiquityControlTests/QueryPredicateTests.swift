import Testing
import UbiquityControl
import UbiquityCore

/// The predicates of queries: their text and their results.
@Suite struct QueryPredicateTests {
    /// 2026-11-20T12:00:00Z.
    private static let now = 1_795_176_000.0

    private static let record: MetadataRecord = {
        var item = ItemReport(path: "Documents/Notes/Größe.TXT", kind: "file", size: 12_000_000, container: "default")
        item.isUbiquitous = true
        item.downloadingStatus = .notDownloaded
        item.percentDownloaded = 0
        item.isUploaded = true
        item.percentUploaded = 100
        item.conflictCount = 2
        item.hasUnresolvedConflicts = true
        item.downloadingError = "the cloud is away"
        item.itemID = "00ff"
        return MetadataRecord(item: item, createdAt: now - 86_400 * 30, modifiedAt: now - 3600)
    }()

    private func holds(_ text: String) throws -> Bool {
        try QueryPredicate(parsing: text, now: Self.now).holds(Self.record.value)
    }

    @Test("DQ-06: predicates that match", arguments: [
        "", "  ", "true", "TRUEPREDICATE", "not false", "name == Größe.TXT", "name = \"Größe.TXT\"", "name like '*.TXT'",
        "name like[c] \"*.txt\"", "name like Gr????TXT", "name like *", "name contains röß", "name beginswith Gr",
        "name endswith .TXT", "name != other", "size == 1 or true",
        "extension ==[c] txt", "kind == file", "kind in {file, symlink}", "path within Documents",
        "path within /Documents/Notes/", "path within Documents/Notes/Größe.TXT", "path like Documents/*", "size > 10M",
        "size >= 12000000", "size < 1G and size != 5", "size in {1, 12MB}", "modified > now-2h", "modified < now",
        "modified > -1d", "created < 2026-11-01", "created >= 2026-10-21T12:00:00Z", "status == not-downloaded",
        "downloading-status != current", "status in {downloaded, not-downloaded}", "not is-downloaded", "conflicts",
        "has-unresolved-conflicts == yes", "conflict-count > 1", "is-uploaded && !is-uploading", "percent-uploaded == 100",
        "downloading-error != nil", "uploading-error == nil", "downloading-error contains away", "not is-pinned",
        "is-ubiquitous and not excluded", "(size > 1G or conflicts) and not (status == current)", "id == 00ff",
        "NSMetadataItemFSNameKey like '*.TXT'", "kMDItemFSSize > 1K", "NSMetadataUbiquitousItemIsUploadedKey == 1",
        "NSMetadataUbiquitousItemDownloadingStatusKey == NSMetadataUbiquitousItemDownloadingStatusNotDownloaded",
        "not size > 1G and true", "name == a or name == b or conflicts",
    ])
    func isTrue(_ text: String) throws { #expect(try holds(text)) }

    @Test("DQ-06: predicates that do not match", arguments: [
        "false", "not true", "name == größe.txt", "name like *.txt", "name like Gr?TXT", "name like ''",
        "name contains Rö", "path within Documents/Note", "path within Doc", "size > 1G", "size in {1, 2}",
        "modified > now-30m", "created > 2026-11-01", "status == current", "is-downloaded", "not conflicts", "pinned",
        "downloading-error == nil", "uploading-error != nil", "uploading-error contains away", "conflicts and size < 5",
        "name == a or name == b", "conflicts and not conflicts",
    ])
    func isFalse(_ text: String) throws { #expect(try !holds(text)) }

    @Test("DQ-06: an invalid predicate is refused with the error and its position", arguments: [
        ("nme == a", 1, "no key"), ("name", 5, "expected a comparison"), ("name ==", 8, "expected a value"),
        ("name == \"a", 9, "no closing quote"), ("(name == a", 11, "expected \")\""), ("name == a)", 10, "expected \"and\""),
        ("name == a b", 11, "expected \"and\""), ("size > abc", 8, "not a value of size"), ("size like 5", 6, "cannot be used"),
        ("name > a", 6, "cannot be used"), ("status == gone", 11, "not a value"), ("modified > yesterday", 12, "not a value"),
        ("modified > 2026-02-30", 12, "not a value"), ("modified > 2026-13-01", 12, "not a value"),
        ("conflicts == maybe", 14, "not a value"),
        ("kind == package", 9, "not a value"), ("kind in {file, x}", 16, "not a value"),
        ("conflicts > 1", 11, "cannot be used"), ("name like[d] a", 10, "only [c]"),
        ("name like[c a", 10, "no \"]\""), ("kind in file", 9, "in braces"), ("kind in {file", 14, "expected \",\""),
        ("kind in {}", 10, "expected a value"), ("and", 1, "no key"), ("name == a and", 14, "expected a key"),
        ("\"name\" == a", 1, "expected a key"), ("size == nil and size > nil", 24, "not a value"), ("size | 5", 6, "not expected"),
        ("percent-uploaded > nan", 20, "not a value"), (")", 1, "expected a key"),
    ] as [(String, Int, String)])
    func isRefused(_ text: String, _ position: Int, _ words: String) throws {
        let error = try #require(throws: UbiquityError.self) { try QueryPredicate(parsing: text, now: Self.now) }
        #expect(error.code == .invalid)
        #expect(error.message.contains("(at character \(position))"), "\(error.message)")
        #expect(error.message.contains(words), "\(error.message)")
    }

    @Test func depthAndLengthAreLimited() throws {
        let deep = String(repeating: "(", count: 100) + "conflicts" + String(repeating: ")", count: 100)
        #expect(throws: UbiquityError.self) { try QueryPredicate(parsing: deep, now: 0) }
        #expect(throws: UbiquityError.self) {
            try QueryPredicate(parsing: String(repeating: "not ", count: 1000) + "conflicts", now: 0)
        }
        let long = "name == " + String(repeating: "a", count: QueryPredicate.maximumLength)
        #expect(throws: UbiquityError.self) { try QueryPredicate(parsing: long, now: 0) }
        // A long chain is not a deep nesting.
        let chain = Array(repeating: "conflicts", count: 1000).joined(separator: " or ")
        #expect(try QueryPredicate(parsing: chain, now: 0).holds { _ in .flag(true) })
    }

    @Test func everyKeyIsReadAndWritten() throws {
        for key in QueryKey.allCases { #expect(QueryKey(written: key.rawValue) == key) }
        #expect(QueryKey(written: "NSMetadataItemNoSuchKey") == nil)
    }

    @Test("a predicate's text reads back as the same", arguments: 0..<200)
    func textReadsBack(_ seed: Int) throws {
        var random = Seeded(state: UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 | 1)
        let predicate = Self.predicate(&random, depth: 4)
        let text = predicate.description
        let again = try QueryPredicate(parsing: text, now: 0)
        #expect(again.description == text)
        #expect(again == predicate, "\(text)")
        for value in [Self.record, MetadataRecord(item: ItemReport(path: "a", kind: "file", size: 0, container: "b"),
            createdAt: 0, modifiedAt: 0)]
        {
            #expect(predicate.cheapFirst.holds(value.value) == predicate.holds(value.value), "\(text)")
        }
    }

    @Test("a time of any size is written, and reads back as the nearest valid one", arguments: [
        "1600-01-01", "0001-01-01", "9999-12-31T23:59:59Z", "now-999999999999999999d", "now+999999999999999999w",
        "-" + String(repeating: "9", count: 400) + "s", "1969-12-31T23:59:59.999999Z", "2262-04-12", "1677-09-20",
    ])
    func momentsReadBack(_ moment: String) throws {
        let predicate = try QueryPredicate(parsing: "modified > \(moment)", now: Self.now)
        #expect(try QueryPredicate(parsing: predicate.description, now: 0) == predicate, "\(predicate)")
    }

    @Test(arguments: [-1e300, -Double.infinity, .infinity, 9.3e18, -9.3e18, .nan, -1e-300, 253_402_300_799.9999])
    func extremeMomentsAreWritten(_ seconds: Double) throws {
        let text = QueryPredicate.comparison(QueryComparison(.modified, .less, [.time(seconds)])).description
        #expect(try QueryPredicate(parsing: text, now: 0).description == text)
    }

    @Test func randomTextNeverHurts() {
        let words = [
            "name", "size", "==", "like", "(", ")", "and", "or", "not", "\"", "'", "[c]", "{", "}", ",", "5", "nil", "é",
            "\\", "!", "in",
        ]
        var random = Seeded(state: 7)
        for _ in 0..<5000 {
            let text = (0..<random.next(12)).map { _ in words[random.next(words.count)] }.joined(separator: " ")
            // Refusals throw an error; nothing traps.
            _ = try? QueryPredicate(parsing: text, now: 0)
        }
    }

    private static func predicate(_ random: inout Seeded, depth: Int) -> QueryPredicate {
        switch depth == 0 ? 3 + random.next(2) : random.next(5) {
        case 0: return .not(predicate(&random, depth: depth - 1))
        case 1: return .all((0..<2 + random.next(2)).map { _ in predicate(&random, depth: depth - 1) })
        case 2: return .any((0..<2 + random.next(2)).map { _ in predicate(&random, depth: depth - 1) })
        case 3: return .constant(random.next(2) == 0)
        default: return .comparison(comparison(&random))
        }
    }

    private static func comparison(_ random: inout Seeded) -> QueryComparison {
        let texts = ["a", "b \"quoted\"", "c\\d", "*.txt", "", "and", "ü (x)"]
        switch random.next(5) {
        case 0:
            let all: [QueryComparison.Operator] = [.equal, .notEqual, .like, .contains, .beginsWith, .endsWith]
            return QueryComparison(
                .name, all[random.next(all.count)], [.text(texts[random.next(texts.count)])],
                ignoresCase: random.next(2) == 0)
        case 1:
            let sizes = [Double(random.next(1 << 30)), 1e16, -3, 1e300]
            return QueryComparison(.size, .greaterOrEqual, [.number(sizes[random.next(sizes.count)])])
        case 2:
            let moment = Double(random.next(2_000_000_000))
            let moments = [moment, -100 * moment, 1_500_000_000.625, .infinity, -.infinity, 1000 * moment]
            return QueryComparison(.modified, .less, [.moment(moments[random.next(moments.count)])])
        case 3: return QueryComparison(.status(.downloadingStatus), .isIn, [.text("current"), .text("downloaded")])
        default:
            return random.next(2) == 0 ? QueryComparison(.status(.isPinned), .notEqual, [.flag(true)])
                : QueryComparison(.status(.uploadingError), .equal, [])
        }
    }

    /// A small generator with the same numbers each time.
    private struct Seeded {
        var state: UInt64

        mutating func next(_ limit: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state >> 33) % limit
        }
    }
}
