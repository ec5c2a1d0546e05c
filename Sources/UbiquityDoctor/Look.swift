internal import Logging
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// One look at the whole device: all checks in their order.
struct Look: Check {
    let context: CheckContext

    private var identity: CloudIdentityCheck { CloudIdentityCheck(context: context) }

    func run() async throws -> Diagnosis {
        var diagnosis = Diagnosis()
        diagnosis.add(try await pool.run { try IndexCheck(context: context).run() })
        // Rows still unreadable would fail each of the next steps.
        if try await pool.run({ [index] in try index.hasUnreadableRows() }) { return logged(diagnosis) }
        let damaged = try await pool.run { [index] in try index.read { try $0.damagedFields() } }
        do {
            if options.isAlone { try await catchUp(&diagnosis) }
            if !diagnosis.isOfAnotherCloud || options.repairs {
                try await RecordCheck(context: context).run(damaged: Set(damaged.records), &diagnosis)
            }
            diagnosis.add(
                try await pool.run {
                    try TreeCheck(context: context).run() + OwnerCheck(context: context).lostContents()
                })
        } catch let error as UbiquityError where error.isAboutConnection || error.code == .signedOut {
            diagnosis.cloudProblem = error
        }
        diagnosis.add(try await pool.run { try FieldCheck(context: context).run(damaged) })
        // Check the manifests first. The check of contents needs complete manifests.
        diagnosis.add(try await ManifestCheck(context: context).run(asksCloud: diagnosis.cloudProblem == nil))
        let contents = try await pool.run { try ContentCheck(context: context).run() }
        diagnosis.add(contents.findings)
        diagnosis.contents = contents.count
        diagnosis.add(try await UnusedContentCheck(context: context).run())
        if diagnosis.cloudProblem == nil, !diagnosis.isOfAnotherCloud || options.repairs {
            do { try await ChunkCheck(context: context).run(&diagnosis) } catch let error as UbiquityError
                where error.isAboutConnection || error.code == .signedOut
            {
                diagnosis.cloudProblem = error
            }
        }
        if options.repairs, !diagnosis.findings.isEmpty {
            try await pool.run { [index] in try index.makeDurable() }
            device.resumeTransfers()
        }
        diagnosis.isComplete = true
        return logged(diagnosis)
    }

    /// Whether unreferenced contents were given up by a killed process: the index breaks no rule and has lost no
    /// content.
    func hasTrustworthyLeftovers() throws -> Bool {
        guard try UnusedContentCheck(context: context).hasLeftovers(), try !index.hasUnreadableRows(),
            try index.contradictions(isAlone: true).isEmpty
        else { return false }
        return try OwnerCheck(context: context).rowsWithoutContent().isEmpty
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
    private func catchUp(_ diagnosis: inout Diagnosis) async throws {
        let description = try await service.open()
        let position = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
        guard try await identity.hasPossiblePlace(position, description, &diagnosis),
            try await identity.isKnown(description, &diagnosis)
        else { return }
        do { try await device.readFeed(of: description) } catch let error as UbiquityError
            where error.code == .invalid
        {
            // The cloud was restored from an older backup, and this device has read further. From now on it counts as
            // another cloud.
            let known = try await pool.run { [index] in try index.read { try $0.feedPosition() } }
            let renewed = try await service.open(knowing: known.point)
            guard renewed.incarnation != description.incarnation else { throw error }
            guard try await identity.isKnown(renewed, &diagnosis) else { return }
            try await device.readFeed(of: renewed)
        }
    }
}
