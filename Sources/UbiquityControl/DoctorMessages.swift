/// Options of an examination by the doctor.
package struct DoctorRequest: Codable, Hashable, Sendable {
    /// Examine only, repair nothing.
    package var check: Bool
    /// Do not read every byte, on this device and in the cloud.
    package var quick: Bool

    package init(check: Bool = false, quick: Bool = false) {
        self.check = check
        self.quick = quick
    }
}

/// One finding of the doctor.
package struct DoctorFinding: Codable, Hashable, Sendable {
    package enum Outcome: String, Codable, CaseIterable, Hashable, Sendable {
        /// Found, and not to be repaired.
        case found
        case repaired
        case unrepaired
    }

    /// The kind, a word of `Finding.Kind` ("content-damaged").
    package var kind: String
    /// A path, a content, a chunk.
    package var subject: String
    package var detail: String
    package var outcome: Outcome
    /// How it was repaired, or why it was not.
    package var remark: String?

    package init(kind: String, subject: String, detail: String, outcome: Outcome, remark: String? = nil) {
        self.kind = kind
        self.subject = subject
        self.detail = detail
        self.outcome = outcome
        self.remark = remark
    }
}

/// The scope and the findings of an examination.
package struct DoctorReport: Codable, Hashable, Sendable {
    package var findings: [DoctorFinding]
    /// Numbers of examined contents on this device, items of the cloud, and chunks in the cloud.
    package var contents: Int
    package var items: Int
    package var chunks: Int
    /// Why the cloud was not asked; nil if it was.
    package var cloudProblem: String?

    package init(findings: [DoctorFinding], contents: Int, items: Int, chunks: Int, cloudProblem: String?) {
        self.findings = findings
        self.contents = contents
        self.items = items
        self.chunks = chunks
        self.cloudProblem = cloudProblem
    }

    /// Whether a problem remains.
    package var isUnwell: Bool { findings.contains { $0.outcome != .repaired } }
}
