internal import Logging
internal import UbiquityCore
internal import UbiquityContent
internal import UbiquityIndex
internal import UbiquitySystem
internal import UbiquityWire

// `ubiquity doctor`: index, contents and cloud against each other. What can be repaired from another side is; what
// cannot be trusted is set aside.
extension SyncEngine {
    /// Looks that one examination takes at most.
    private static let maximumLooks = 4

    /// Looks at everything. While the mount is in use, what is being changed is passed over.
    package func examine(_ options: ExaminationOptions) async throws -> Diagnosis {
        var options = options
        // Once, before anything is repaired.
        if options.leavesLeftovers {
            options.leavesLeftovers = try await pool.run { try self.hasLeftovers() && self.isIndexTrustworthy() }
        }
        if options.repairs, options.isAlone {
            // After a loss of power: else what has not come whole would count, and what it took the place of would go.
            try await pool.run { if try !self.index.hasUnreadableRows() { try self.restoreReplaced() } }
        }
        var diagnosis = try await look(options)
        guard options.repairs, options.isAlone else { return diagnosis }
        // What was repaired may have hidden something. Bytes that were read are not read once more.
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
        // What is left of these would end each of the next looks with an error.
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
        // First: by that the contents are known to be whole.
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
            pushSignal.fire()
            downloadSignal.fire()
        }
        diagnosis.isComplete = true
        return logged(diagnosis)
    }

    /// Whether the index breaks none of its rules and has lost no content: then what no item has was given up.
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

    /// Connects and reads the feed to its end, for who does not `run`.
    /// Of another cloud than the one it knows nothing is taken in if nothing is to be repaired.
    private func catchUp(_ options: ExaminationOptions, _ diagnosis: inout Diagnosis) async throws {
        let description = try await service.open()
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        guard try await hasPossiblePlace(position, description, options, &diagnosis),
            try await isWellMet(description, options, &diagnosis)
        else { return }
        try await meet(description)
        do { try await readFeed() } catch let error as UbiquityError where error.code == .invalid {
            // An older copy of the cloud's data was put back, and this device has read further: from now on it is
            // another one.
            let known = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
            let renewed = try await service.open(knowing: known.point)
            guard renewed.incarnation != description.incarnation else { throw error }
            guard try await isWellMet(renewed, options, &diagnosis) else { return }
            try await meet(renewed)
            try await readFeed()
        }
        feed.withLock { $0.isCaughtUp = true }
    }

    /// - Returns: false if it is another cloud, and nothing is to be repaired.
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
        // Before anything is read: reading commits what is in the journal, which then is of no use any more.
        if try !index.isJournalWhole() {
            if options.repairs { try index.renewJournal() }
            findings.append(
                Finding(
                    .journalDamaged, "index.journal", "it does not have what it should have",
                    options.repairs ? .repaired("the database has taken over what it stood for") : .found))
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
        // Before the totals of the folders are compared again.
        try index.countFolders()
        if try !index.hasUnreadableRows() { findings += try findLostContents(options) }
        let left = Set(try index.contradictions(isAlone: true))
        return findings
            + broken.map { rule in
                let isLeft = left.contains(rule)
                return Finding(
                    .indexInconsistent, "index.db", rule,
                    isLeft ? .unrepaired(Self.whatIsLeft) : .repaired("made to agree"))
            }
    }

    /// The totals of folders follow from the items, so they are put right also while programs change items.
    private func examineTotals(_ options: ExaminationOptions) throws -> [Finding] {
        guard let wrong = try index.wrongTotals() else { return [] }
        if options.repairs { try index.recountFolders() }
        return [Finding(.indexInconsistent, "index.db", wrong, options.repairs ? .repaired("counted again") : .found)]
    }

    private static let whatIsLeft = """
        files that this is about are told of by name; if there are none, move index.db away and mount again: what is \
        only here is put into set-aside then
        """

    /// An item's path, or its id if it has none.
    func subject(_ row: ItemRow) throws -> String {
        try index.read { try $0.path(of: row.key) }.map { $0.map(\.description).joined(separator: "/") } ?? "\(row.id)"
    }
}
