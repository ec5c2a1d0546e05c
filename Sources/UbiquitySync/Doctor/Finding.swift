package import UbiquityCore

/// Something in which index, contents and cloud contradict each other, or are damaged.
package struct Finding: Sendable, Hashable {
    package enum Kind: String, Sendable, CaseIterable {
        /// The index's database cannot be read as a whole.
        case indexDamaged = "index-damaged"
        /// The index breaks one of its own rules.
        case indexInconsistent = "index-inconsistent"
        case journalDamaged = "journal-damaged"
        case contentMissing = "content-missing"
        /// The bytes are not those of the version.
        case contentDamaged = "content-damaged"
        case contentSize = "content-size"
        /// Others may read or change the file of a content, or this daemon may not.
        case contentRights = "content-rights"
        /// What a content consists of is not known, or not all of it.
        case contentUnknown = "content-unknown"
        /// A content that no item has.
        case contentUnused = "content-unused"
        /// The cloud has an item of which the index has no record.
        case recordMissing = "record-missing"
        case recordDiffers = "record-differs"
        /// A record cannot be read.
        case recordDamaged = "record-damaged"
        /// The index has a record of an item that the cloud does not have.
        case recordUnknown = "record-unknown"
        /// An item of the cloud is not in the tree.
        case itemMissing = "item-missing"
        /// An item is not where, or what, its record says, though nothing was changed here.
        case itemDiffers = "item-differs"
        /// What the index has of an item's attributes cannot be read.
        case itemDamaged = "item-damaged"
        /// An item counts as sent, and the cloud does not have it.
        case itemUnknown = "item-unknown"
        /// An item has no place.
        case itemStray = "item-stray"
        /// The cloud has the item, and has lost what it knew of its content.
        case versionMissing = "version-missing"
        case chunkMissing = "chunk-missing"
        case chunkDamaged = "chunk-damaged"
    }

    package enum Outcome: Sendable, Hashable {
        /// It was not to be repaired.
        case found
        /// How it was repaired.
        case repaired(String)
        /// Why not, and what a person may do.
        case unrepaired(String)
    }

    package var kind: Kind
    /// What it is about, for people: a path, a content, a chunk.
    package var subject: String
    package var detail: String
    package var outcome: Outcome

    package init(_ kind: Kind, _ subject: String, _ detail: String, _ outcome: Outcome = .found) {
        self.kind = kind
        self.subject = subject
        self.detail = detail
        self.outcome = outcome
    }

    package var isRepaired: Bool {
        if case .repaired = outcome { true } else { false }
    }

    /// The same, whatever came of it.
    package var subjectMatter: Finding { Finding(kind, subject, detail) }
}

/// What `doctor` is to do.
package struct ExaminationOptions: Sendable, Hashable {
    /// Whether to repair what can be repaired.
    package var repairs: Bool
    /// Whether to read every byte, here and at the cloud.
    package var readsAll: Bool
    /// Whether nobody else works with the index.
    package var isAlone: Bool
    /// Whether contents that no item has are left to the next mount, as what a killed process was about to remove.
    var leavesLeftovers = false
    /// Whether it was looked already: what was put right as the store was opened has been told.
    var isFurtherLook = false

    /// - Parameter trustsIndex: whether the files of the index are well: else no content is taken for a leftover.
    package init(repairs: Bool, readsAll: Bool, isAlone: Bool, trustsIndex: Bool = true) {
        self.repairs = repairs
        self.readsAll = readsAll
        self.isAlone = isAlone
        leavesLeftovers = isAlone && trustsIndex
    }
}

/// What `doctor` found.
package struct Diagnosis: Sendable {
    package var findings: [Finding] = []
    package var contents = 0
    package var records = 0
    package var chunks = 0
    /// Why the cloud could not be asked; nil if it was.
    package var cloudProblem: UbiquityError?
    /// Whether the cloud is another one than the index knew, so that what it lacks goes up again with the next mount.
    package var isOfAnotherCloud = false
    /// Whether all was looked at: rows that cannot be read hide the rest.
    package var isComplete = false

    var isWholePicture: Bool { cloudProblem == nil && !isOfAnotherCloud }

    /// Findings told one by one; who has more has one cause.
    package static let maximumFindings = 10_000

    package init() {}

    /// What a further look has found. What was found before and is there still was not repaired.
    /// - Returns: whether something new was repaired.
    mutating func merge(_ next: Diagnosis) -> Bool {
        var places = [Finding: Int]()
        for (place, finding) in findings.enumerated() { places[finding.subjectMatter] = place }
        var repairedMore = false
        for finding in next.findings {
            guard let place = places[finding.subjectMatter] else {
                add([finding])
                repairedMore = repairedMore || finding.isRepaired
                continue
            }
            if findings[place].isRepaired {
                findings[place].outcome = finding.isRepaired
                    ? .unrepaired("it was there again after it had been repaired") : finding.outcome
            }
        }
        cloudProblem = next.cloudProblem
        isComplete = next.isComplete
        return repairedMore
    }

    package mutating func add(_ more: [Finding]) {
        findings += more.prefix(max(0, Self.maximumFindings - findings.count))
    }
}
