internal import Logging
internal import UbiquityCore
internal import UbiquityContent
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// `ubiquity doctor`: compares index, contents and cloud. It repairs one side from another where possible, and sets
// untrusted data aside.
extension SyncEngine {
    /// The largest number of looks in one examination.
    private static let maximumLooks = 4

    /// Examines everything. While the mount is in use, it skips what is being changed.
    /// - Throws: errors of the index and of the disk.
    package func examine(_ options: ExaminationOptions) async throws -> Diagnosis {
        var options = options
        // Decide once, before any repair.
        if options.leavesLeftovers {
            options.leavesLeftovers = try await pool.run { try self.hasLeftovers() && self.isIndexTrustworthy() }
        }
        if options.repairs, options.isAlone {
            // Do this first after a loss of power. Otherwise an incomplete replacement would count as the content, and
            // the content it replaced would be removed.
            try await pool.run { if try !self.index.hasUnreadableRows() { try self.powerLoss.restoreReplaced() } }
        }
        var diagnosis = try await look(options)
        guard options.repairs, options.isAlone else { return diagnosis }
        // A repair may have hidden other damage. Bytes are not read a second time.
        options.readsAll = options.readsAll && !diagnosis.isComplete
        options.isFurtherLook = true
        var hasRepaired = diagnosis.findings.contains(where: \.isRepaired), looks = 1
        while hasRepaired, diagnosis.isWholePicture, looks < Self.maximumLooks {
            looks += 1
            hasRepaired = diagnosis.merge(try await look(options))
        }
        return diagnosis
    }

    private func look(_ options: ExaminationOptions) async throws -> Diagnosis {
        var diagnosis = Diagnosis()
        diagnosis.add(try await pool.run { try self.examineIndex(options) })
        // Rows still unreadable would fail each of the next steps.
        if try await pool.run({ [index] in try index.hasUnreadableRows() }) { return logged(diagnosis) }
        let damaged = try await pool.run { [index] in try index.read { try $0.damagedFields() } }
        do {
            if options.isAlone { try await catchUp(options, &diagnosis) }
            if !diagnosis.isOfAnotherCloud || options.repairs {
                try await examineRecords(options, damaged: Set(damaged.records), &diagnosis)
            }
            diagnosis.add(try await pool.run { try self.examineItems(options) + self.lostContents(options) })
        } catch let error as UbiquityError where error.isAboutConnection || error.code == .signedOut {
            diagnosis.cloudProblem = error
        }
        diagnosis.add(try await pool.run { try self.examineFields(damaged, options) })
        // Do this first: it completes the descriptions by which contents are verified.
        diagnosis.add(try await examineManifests(options, asksCloud: diagnosis.cloudProblem == nil))
        let contents = try await pool.run { try self.examineContents(options) }
        diagnosis.add(contents.findings)
        diagnosis.contents = contents.count
        diagnosis.add(try await examineUnusedContents(options))
        if diagnosis.cloudProblem == nil, !diagnosis.isOfAnotherCloud || options.repairs {
            do { try await examineChunks(options, &diagnosis) } catch let error as UbiquityError
                where error.isAboutConnection || error.code == .signedOut
            {
                diagnosis.cloudProblem = error
            }
        }
        if options.repairs, !diagnosis.findings.isEmpty {
            try await pool.run { [index] in try index.makeDurable() }
            agenda.happened(.indexWasRepaired)
        }
        diagnosis.isComplete = true
        return logged(diagnosis)
    }

    /// Whether the index breaks no rule and has lost no content. Then unreferenced contents were given up.
    private func isIndexTrustworthy() throws -> Bool {
        guard try !index.hasUnreadableRows(), try index.contradictions(isAlone: true).isEmpty else { return false }
        return try rowsWithoutContent().isEmpty
    }

    private func logged(_ diagnosis: Diagnosis) -> Diagnosis {
        for finding in diagnosis.findings {
            logger.warning(
                "doctor", metadata: [
                    "kind": "\(finding.kind.rawValue)", "subject": "\(finding.subject)", "detail": "\(finding.detail)",
                    "outcome": "\(finding.outcome)",
                ])
        }
        return diagnosis
    }

    /// Connects and reads the feed to its end, for an engine that does not `run`. Without repairs it applies nothing of
    /// another cloud than the index knows.
    private func catchUp(_ options: ExaminationOptions, _ diagnosis: inout Diagnosis) async throws {
        let description = try await service.open()
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        guard try await hasPossiblePlace(position, description, options, &diagnosis),
            try await isWellMet(description, options, &diagnosis)
        else { return }
        try await feedReader.meet(description)
        do { try await feedReader.readFeed() } catch let error as UbiquityError where error.code == .invalid {
            // The cloud was restored from an older backup, and this device has read further. From now on it counts as
            // another cloud.
            let known = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
            let renewed = try await service.open(knowing: known.point)
            guard renewed.incarnation != description.incarnation else { throw error }
            guard try await isWellMet(renewed, options, &diagnosis) else { return }
            try await feedReader.meet(renewed)
            try await feedReader.readFeed()
        }
        feed.update { $0.isCaughtUp = true }
    }

    /// - Returns: false if it is another cloud and nothing is to be repaired.
    private func isWellMet(
        _ description: ContainerDescription, _ options: ExaminationOptions, _ diagnosis: inout Diagnosis
    ) async throws -> Bool {
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        guard let known = position.incarnation, known != description.incarnation else { return true }
        try await examineAnotherCloud(description, position, options, &diagnosis)
        return options.repairs
    }

    // MARK: The index

    private func examineIndex(_ options: ExaminationOptions) throws -> [Finding] {
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
            try settleSharedContents()
            findings += try findLostContents(options)
        }
        guard !broken.isEmpty else { return findings + (options.isAlone ? [] : try examineTotals(options)) }
        guard options.repairs, options.isAlone else {
            let outcome: Finding.Outcome =
                options.repairs ? .unrepaired("unmount, and run doctor again with --state") : .found
            return findings + broken.map { Finding(.indexInconsistent, "index.db", $0, outcome) }
        }
        try index.write(.startup) { try $0.repairContradictions() }
        // Count before the totals of the folders are compared again.
        try index.countFolders()
        if try !index.hasUnreadableRows() { findings += try findLostContents(options) }
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
    private func examineTotals(_ options: ExaminationOptions) throws -> [Finding] {
        guard let wrong = try index.wrongTotals() else { return [] }
        if options.repairs { try index.recountFolders() }
        return [Finding(.indexInconsistent, "index.db", wrong, options.repairs ? .repaired("counted again") : .found)]
    }

    private static let whatIsLeft = """
        the affected files are listed by name; if none is listed, move index.db away and mount again: contents that \
        exist only here are then moved to set-aside
        """

    /// The item's path, or its id if it has none.
    func subject(_ row: ItemRow) throws -> String {
        try index.read { try $0.path(of: row.key) }.map { $0.map(\.description).joined(separator: "/") } ?? "\(row.id)"
    }
}
