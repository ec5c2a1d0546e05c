import UbiquityControl
import UbiquityCore
import UbiquityDaemon
import UbiquityFUSE
import UbiquityVFS

/// Texts that people write, and the calls of replays.
extension FuzzTarget {
    static let textTargets = [
        FuzzTarget("queries", testExecutions: 3000) { try exerciseQuery(&$0) },
        FuzzTarget("ignore-patterns", testExecutions: 1800) { try exerciseIgnoring(&$0) },
        FuzzTarget("configuration", testExecutions: 500) { exerciseConfiguration(&$0) },
        FuzzTarget("replay-calls", testExecutions: 6000) { try exerciseReplay(&$0) },
    ]

    // MARK: Queries

    private static let queryWords = QueryKey.allCases.map(\.rawValue) + [
        "and", "or", "not", "(", ")", "==", "!=", "<", "<=", ">", ">=", "like", "contains", "beginswith", "endswith",
        "in", "within", "[c]", "nil", "true", "false", "now", "now-7d", "now+1h", "today", "2026-11-29",
        "2026-11-29T10:00:00Z", "10M", "1.5", "-3", "1e9", "1e999", "\"*.txt\"", "\"\"", "\"a\\\"b\"", "'x'", "{", "}",
        ",", "*", "?", "\\", "\u{0}", "é",
    ]
    private static let queryMutator = Mutator(words: queryWords.map { " \($0) " })

    private static func queryText(_ random: inout FuzzRandom) -> String {
        let parts = (0...random.below(4)).map { _ in
            random.pick([
                "name like \"*.txt\"", "size > 10M", "not conflicts", "modified > now-7d", "path within \"a/b\"",
                "(kind == \"file\" or kind == \"directory\")", "name in {\"a\", \"b\"}", "name ==[c] \"A\"",
                "is-downloaded", "created <= 2026-01-01", "name beginswith \"x\" and size == 0",
            ])
        }
        return parts.joined(separator: random.pick([" and ", " or ", " and not "]))
    }

    private static func exerciseQuery(_ random: inout FuzzRandom) throws {
        let sample = Array(queryText(&random).utf8), other = Array(queryText(&random).utf8)
        let text = String(decoding: queryMutator.mutate(sample, with: other, &random), as: UTF8.self)
        let now = 1_800_000_000.0
        let predicate: QueryPredicate
        do throws(UbiquityError) { predicate = try QueryPredicate(parsing: text, now: now) } catch {
            return try require(error.code == .invalid, "refused with \(error.code)")
        }
        let written = predicate.description
        // The written text has no abbreviations, so it may exceed the limit of the parser.
        guard written.utf8.count <= QueryPredicate.maximumLength else { return }
        let again: QueryPredicate
        do throws(UbiquityError) { again = try QueryPredicate(parsing: written, now: now) } catch {
            throw Broken("what it writes cannot be read: \(written.debugDescription): \(error)")
        }
        try requireEqual(written, again.description, "written twice it is another query")
        var values = [QueryKey: QueryValue]()
        for key in QueryKey.allCases where !random.oneIn(4) {
            values[key] = switch random.below(4) {
            case 0: .text(random.pick(["a", "A.txt", "a/b/c", "", "é", String(repeating: "a", count: 200)]))
            case 1: .number(random.pick([0, -1, 10, 1e300, .infinity, .nan]))
            case 2: .time(random.pick([0, now, -1e18, 1e18, .nan]))
            default: .flag(random.oneIn(2))
            }
        }
        let holds = predicate.holds { values[$0] }
        try requireEqual(holds, again.holds { values[$0] }, "what it writes holds for others: \(written)")
        try requireEqual(holds, predicate.cheapFirst.holds { values[$0] }, "the order decides: \(written)")
    }

    // MARK: Ignoring

    private static let ignoreMutator = Mutator(words: [
        "*", "**", "**/", "/**", "?", "!", "#", "\\", "[a-z]", "[!a]", "[]]", "[[:alpha:]]", "[\\]", "/", " ", "\n",
        "\r\n", "a", "*a*a*a*a*", "\u{FEFF}", "[z-a]", "[", "]",
    ])

    private static func exerciseIgnoring(_ random: inout FuzzRandom) throws {
        let lines = (0..<random.below(6)).map { _ in
            random.pick(["*.o", "!keep.o", "/build/", "a/**/b", "**/x", "doc/*.txt", "# note", "\\#x", "[a-c]?", "x\\ "])
        }
        let sample = Array(lines.joined(separator: "\n").utf8)
        let rules = IgnoreRules(text: ignoreMutator.mutate(sample, with: sample, &random))
        let path = (0...random.below(5)).map { _ in
            ItemName(
                stored: random.oneIn(5)
                    ? [UInt8](repeating: UInt8(ascii: "a"), count: 1 + random.below(255))
                    : Array(random.pick(["a", "b", "x", "keep.o", "m.o", "doc", "build", "é", "A", "a]"]).utf8))
        }
        let isDirectory = random.oneIn(2)
        let decision = rules.decision(on: path[...], isDirectory: isDirectory)
        try requireEqual(rules.decision(on: path[...], isDirectory: isDirectory), decision, "asked twice")
        // Only the first byte order mark of a text is skipped.
        if !rules.text.starts(with: [0xEF, 0xBB, 0xBF]) {
            let again = IgnoreRules(text: rules.text)
            try requireEqual(again.decision(on: path[...], isDirectory: isDirectory), decision, "its text says another")
        }
        let levels = [(depth: 0, rules: rules), (depth: random.below(path.count + 1), rules: rules)]
        _ = IgnoreRules.decision(on: path, isDirectory: isDirectory, by: levels)
    }

    // MARK: The configuration

    private static let configurationMutator = Mutator(words: [
        "ignore = *.part\n", "package = box\n", "quota = 50G\n", "keep = 0.5\n", "keep = 1e400\n", "keep-versions = 7\n",
        "merge.txt = cat\n", "ignore.standard = no\n", "no-materialize = x\n", "noatime-reader = *\n", "#", "=", "\n",
        "trust-suid = yes\n", "visible-conflicts = yes\n", "\r", "\u{85}", "\u{2028}", "merge. = x\n", "\u{0}",
        "quota = 99999999999999999999E\n",
    ])

    private static func exerciseConfiguration(_ random: inout FuzzRandom) {
        let lines = (0..<random.below(5)).map { _ in
            random.pick(["ignore = *.tmp", "quota=10M", "keep = 30", "package.standard = no", "merge.odt = \"a b\" $1"])
        }
        let sample = Array(lines.joined(separator: "\n").utf8)
        let text = String(decoding: configurationMutator.mutate(sample, with: sample, &random), as: UTF8.self)
        let configuration = UserConfiguration(text)
        _ = (configuration.quotaBytes, configuration.keptDays, configuration.keptVersions)
        _ = (configuration.ignoring.isEmpty, configuration.packages, configuration.hasMergeCommands)
        _ = (configuration.backgroundReaders, configuration.noAccessTimeReaders, configuration.trustsPrivileges)
        for name in ["a.txt", "a.ODT", ".", "a."] { _ = configuration.mergeCommand(for: ItemName(stored: Array(name.utf8))) }
    }

    // MARK: Replays

    private static let replayMutator = Mutator()

    private static func exerciseReplay(_ random: inout FuzzRandom) throws {
        func place() -> ReplayCall.Place {
            ReplayCall.Place(
                folder: Array(random.pick(["", "a", "a/b"]).utf8), inode: UInt64(bitPattern: random.oddNumber()),
                name: random.bytes(1 + random.below(5)))
        }
        func call() -> ReplayCall {
            let kind = ReplayCall.Kind(rawValue: UInt8(random.below(8))) ?? .touch
            var call = ReplayCall(kind, place(), target: random.oneIn(2) ? nil : place())
            call.text = random.bytes(random.below(6))
            call.modifiedAt = random.time()
            return call
        }
        let first = call()
        try requireEqual(ReplayCall(encoded: first.encoded), first, "a call changed in the round trip")
        let bytes = replayMutator.mutate(first.encoded, with: call().encoded, &random)
        guard let found = ReplayCall(encoded: bytes) else { return }
        try requireEqual(ReplayCall(encoded: found.encoded), found, "a call changed in the round trip")
        try require(found.encoded.count == bytes.count, "some of the bytes mean nothing")
    }
}
