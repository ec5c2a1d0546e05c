package import UbiquityCore

/// A contradiction between index, contents and cloud, or damage to one of them.
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
        /// Other users may read or change the file of a content, or this daemon may not.
        case contentRights = "content-rights"
        /// The chunks of a content are unknown, or some of them are.
        case contentUnknown = "content-unknown"
        /// A content that no item references.
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
        /// A clean item differs from its record in place, kind or another field.
        case itemDiffers = "item-differs"
        /// The item's attributes in the index cannot be read.
        case itemDamaged = "item-damaged"
        /// An item counts as sent, but the cloud does not have it.
        case itemUnknown = "item-unknown"
        /// An item has no place.
        case itemStray = "item-stray"
        /// The cloud has the item, but has lost its content's description.
        case versionMissing = "version-missing"
        case chunkMissing = "chunk-missing"
        case chunkDamaged = "chunk-damaged"
    }

    package enum Outcome: Sendable, Hashable {
        /// Found, and not to be repaired.
        case found
        /// Repaired; the text says how.
        case repaired(String)
        /// Not repaired; the text says why, and what a person may do.
        case unrepaired(String)
    }

    package var kind: Kind
    /// The subject, for people: a path, a content or a chunk.
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

    /// The same finding without its outcome.
    package var subjectMatter: Finding { Finding(kind, subject, detail) }
}

/// Options of `doctor`.
package struct ExaminationOptions: Sendable, Hashable {
    /// Whether to repair what can be repaired.
    package var repairs: Bool
    /// Whether to read every byte, here and at the cloud.
    package var readsAll: Bool
    /// Whether no other process uses the index.
    package var isAlone: Bool
    /// Whether unreferenced contents are left to the next mount, because a killed process was about to remove them.
    var leavesLeftovers = false
    /// Whether an earlier look has run. It has reported what the opening of the store repaired.
    var isFurtherLook = false

    /// - Parameter trustsIndex: whether the files of the index are intact. If not, no content counts as a leftover.
    package init(repairs: Bool, readsAll: Bool, isAlone: Bool, trustsIndex: Bool = true) {
        self.repairs = repairs
        self.readsAll = readsAll
        self.isAlone = isAlone
        leavesLeftovers = isAlone && trustsIndex
    }
}

/// The result of `doctor`.
package struct Diagnosis: Sendable {
    package var findings: [Finding] = []
    package var contents = 0
    package var records = 0
    package var chunks = 0
    /// Why the cloud could not be queried, or nil if it was.
    package var cloudProblem: UbiquityError?
    /// Whether the index knew another cloud than this one. Then the next mount uploads the missing items again.
    package var isOfAnotherCloud = false
    /// Whether everything was examined. Unreadable rows prevent that.
    package var isComplete = false

    var isWholePicture: Bool { cloudProblem == nil && !isOfAnotherCloud }

    /// Findings reported one by one. More of them have one common cause.
    package static let maximumFindings = 10_000

    package init() {}

    /// Merges a further look into this one. A finding that appears again was not repaired.
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
                    ? .unrepaired("it appeared again after its repair") : finding.outcome
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
