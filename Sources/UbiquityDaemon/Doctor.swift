import Logging
import UbiquityCloudClient
import UbiquityContent
import UbiquityControl
import UbiquityCore
import UbiquityDoctor
import UbiquityIndex
import UbiquitySync
import UbiquitySystem

/// `ubiquity doctor` on the state folder of a container that is not mounted.
package enum Doctor {
    /// - Throws: `.notFound` if there is no such container on this device, `.inUse` if it is mounted.
    package static func examine(
        deviceFolder: String, container: String, _ wanted: DoctorRequest
    ) async throws -> DoctorReport {
        let settings = try MountSettings(
            deviceFolder: deviceFolder, container: container, deviceName: nil, policy: .lazy, cacheLimit: nil,
            diskFloor: nil, allowsPassthrough: false, options: [], mountPoint: "/")
        let folder = try MountLauncher.containerFolder(settings)
        guard try describing("look for the container", at: folder.path, { () throws(Errno) in
            try FileSystem.exists(folder.path)
        }) else {
            throw UbiquityError(.notFound, "this device has no container \"\(container)\"", at: folder.path)
        }
        ProcessHost.keepNewFilesPrivate()
        try folder.requireUnused(to: "check")
        let lock = try ProcessLock(folder.lock)
        defer { withExtendedLifetime(lock) {} }
        var before = try lookAtIndex(folder, wanted)
        guard !before.isUnreadable || !wanted.check else {
            return DoctorReport(findings: before.findings, contents: 0, items: 0, chunks: 0, cloudProblem: nil)
        }
        let parts = try MountAssembly(
            settings, folder, Self.silent, account: try DeviceAccount.load(deviceFolder: deviceFolder)
        ).makeIdleParts()
        do {
            if before.findings.isEmpty, try parts.index.hasLostJournal {
                before.findings = [journalFinding("changes were lost when the index was last opened", wanted)]
            }
            // The intact part of the journal has been applied by now.
            if !wanted.check, !before.findings.isEmpty { try parts.index.renewJournal() }
            let diagnosis = try await Examiner(parts.engine).examine(
                ExaminationOptions(
                    repairs: !wanted.check, readsAll: !wanted.quick, isAlone: true,
                    trustsIndex: before.findings.isEmpty))
            await parts.client.shutdown()
            // Contents without an item were set aside, so the journal's loss is dealt with.
            if !wanted.check, diagnosis.isComplete, try parts.index.hasLostJournal {
                try parts.index.forgetJournalLoss()
            }
            try parts.index.close()
            var report = DoctorReport(diagnosis)
            report.findings = before.findings + report.findings
            return report
        } catch {
            await parts.client.shutdown()
            throw error
        }
    }

    /// A logger that drops everything: the report has all findings.
    private static var silent: Logger { Logger(label: "ubiquity") { _ in SwiftLogNoOpLogHandler() } }

    /// Examines the index before anything opens it. An unreadable database is set aside: the tree is downloaded again,
    /// and contents without an item are set aside too.
    private static func lookAtIndex(
        _ folder: ContainerFolder, _ wanted: DoctorRequest
    ) throws -> (findings: [DoctorFinding], isUnreadable: Bool) {
        let problems = try ItemIndex.problems(ofIndexAt: folder.index)
        var findings = [DoctorFinding]()
        let left = try wanted.check || problems.schema.isEmpty ? [] : ItemIndex.repairSchema(ofIndexAt: folder.index)
        findings += problems.schema.map { problem in
            let isLeft = left.contains(problem)
            let outcome: DoctorFinding.Outcome = isLeft ? .unrepaired : .repaired
            return DoctorFinding(
                kind: Finding.Kind.indexDamaged.rawValue, subject: "index.db", detail: problem,
                outcome: wanted.check ? .found : outcome,
                remark: wanted.check ? nil : isLeft ? "move index.db away and mount again" : "schema restored")
        }
        if !problems.database.isEmpty {
            if !wanted.check { try restoreContents(folder) }
            let place = wanted.check ? nil : try setIndexAside(folder)
            findings += problems.database.map { problem in
                DoctorFinding(
                    kind: Finding.Kind.indexDamaged.rawValue, subject: "index.db", detail: problem,
                    outcome: wanted.check ? .found : .repaired,
                    remark: place.map { "set aside as \($0); the tree is downloaded again" })
            }
        }
        findings += problems.journal.map { journalFinding($0, wanted) }
        if problems.isJournalNoFile, !wanted.check { try setJournalAside(folder) }
        // An index with these problems does not open.
        let isUnreadable = !problems.database.isEmpty || !problems.schema.isEmpty || problems.isJournalNoFile
        return (findings, isUnreadable)
    }

    private static func journalFinding(_ problem: String, _ wanted: DoctorRequest) -> DoctorFinding {
        DoctorFinding(
            kind: Finding.Kind.journalDamaged.rawValue, subject: "index.journal", detail: problem,
            outcome: wanted.check ? .found : .repaired,
            remark: wanted.check ? nil : "its intact part was applied; contents without an item are set aside")
    }

    /// Restores contents that after a power loss are only in the journal, because the journal is set aside with the
    /// index.
    private static func restoreContents(_ folder: ContainerFolder) throws {
        let room = ItemIndex.journalRoom(ofIndexAt: folder.index)
        guard FileSystem.isFile(room.path) else { return }
        let journal = ContentJournal(
            path: room.path, start: room.start, boot: Array(try Boot.id(ofFolder: folder.path).utf8),
            random: SystemRandom())
        let restoration = try journal.restore(into: ContentStore(stateFolder: folder.path)) { _ in true }
        if let failure = restoration.failure { throw failure }
    }

    private static func setJournalAside(_ folder: ContainerFolder) throws(UbiquityError) {
        let path = ItemIndex.journalRoom(ofIndexAt: folder.index).path
        try describing("set aside a path that is not a journal", at: path) { () throws(Errno) in
            try FileSystem.rename(path, to: Path.join(makePlaceAside(folder), "index.journal"))
            try FileSystem.syncDirectory(folder.path)
        }
    }

    /// Creates a new folder to set one index aside.
    private static func makePlaceAside(_ folder: ContainerFolder) throws(Errno) -> String {
        let aside = Path.join(folder.path, "set-aside")
        try FileSystem.makeDirectories(aside)
        var target = Path.join(aside, "index"), number = 2
        while try FileSystem.exists(target) {
            target = Path.join(aside, "index-\(number)")
            number += 1
        }
        try FileSystem.makeDirectory(target)
        return target
    }

    /// - Returns: the folder that has the index now.
    private static func setIndexAside(_ folder: ContainerFolder) throws(UbiquityError) -> String {
        try describing("set the index aside", at: folder.index) { () throws(Errno) in
            let target = try makePlaceAside(folder)
            for name in ["index.db", "index.db-wal", "index.db-shm", "index.journal"] {
                let path = Path.join(folder.path, name)
                if try FileSystem.exists(path) { try FileSystem.rename(path, to: Path.join(target, name)) }
            }
            try FileSystem.syncDirectory(folder.path)
            return target
        }
    }
}

extension DoctorReport {
    init(_ diagnosis: Diagnosis) {
        self.init(
            findings: diagnosis.findings.map(DoctorFinding.init), contents: diagnosis.contents,
            items: diagnosis.records, chunks: diagnosis.chunks,
            cloudProblem: diagnosis.cloudProblem?.description)
    }
}

extension DoctorFinding {
    init(_ finding: Finding) {
        let outcome: Outcome, remark: String?
        switch finding.outcome {
        case .found: (outcome, remark) = (.found, nil)
        case .repaired(let how): (outcome, remark) = (.repaired, how)
        case .unrepaired(let why): (outcome, remark) = (.unrepaired, why)
        }
        self.init(
            kind: finding.kind.rawValue, subject: finding.subject, detail: finding.detail, outcome: outcome,
            remark: remark)
    }
}
