internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem

/// Checks the rules of the index: journal, database, relations between its tables, and the totals of folders.
struct IndexCheck: Check {
    let context: CheckContext

    private var owners: OwnerCheck { OwnerCheck(context: context) }

    func run() throws -> [Finding] {
        var findings = [Finding]()
        // Check the journal before any read: a read commits the journal, which is then of no use.
        if try !index.isJournalWhole() {
            if options.repairs { try index.renewJournal() }
            findings.append(
                Finding(
                    .journalDamaged, "index.journal", "it lacks records that it should have",
                    options.repairs ? .repaired("its records are in the database; it was renewed") : .found))
        }
        findings += try index.integrityProblems().map { problem in
            Finding(.indexDamaged, "index.db", problem, .unrepaired("unmount, and run doctor again with --state"))
        }
        let broken = try index.contradictions(isAlone: options.isAlone)
        if options.repairs, options.isAlone, try !index.hasUnreadableRows() {
            try owners.separateSharedContents()
            findings += try owners.findLostContents()
        }
        guard !broken.isEmpty else { return findings + (options.isAlone ? [] : try examineTotals()) }
        guard options.repairs, options.isAlone else {
            let outcome: Finding.Outcome =
                options.repairs ? .unrepaired("unmount, and run doctor again with --state") : .found
            return findings + broken.map { Finding(.indexInconsistent, "index.db", $0, outcome) }
        }
        try index.write(.startup) { try $0.repairContradictions() }
        // Count before the totals of the folders are compared again.
        try index.countFolders()
        if try !index.hasUnreadableRows() { findings += try owners.findLostContents() }
        let left = Set(try index.contradictions(isAlone: true))
        return findings
            + broken.map { rule in
                let isLeft = left.contains(rule)
                return Finding(
                    .indexInconsistent, "index.db", rule,
                    isLeft ? .unrepaired(Self.whatIsLeft) : .repaired("made consistent"))
            }
    }

    /// The totals of folders derive from the items, so they are repaired even while programs change items.
    private func examineTotals() throws -> [Finding] {
        guard let wrong = try index.wrongTotals() else { return [] }
        if options.repairs { try index.recountFolders() }
        return [Finding(.indexInconsistent, "index.db", wrong, options.repairs ? .repaired("counted again") : .found)]
    }

    private static let whatIsLeft = """
        the affected files are listed by name; if none is listed, move index.db away and mount again: contents that \
        exist only here are then moved to set-aside
        """
}
