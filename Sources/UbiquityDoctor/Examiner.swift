internal import UbiquityCore
internal import UbiquityIndex
package import UbiquitySync
internal import UbiquitySystem

/// `ubiquity doctor`: compares index, contents and cloud. It repairs one side from another where possible, and sets
/// untrusted data aside.
///
/// An examination consists of looks (`Look`). Each look runs the checks in order: `IndexCheck`, `CloudIdentityCheck`,
/// `RecordCheck` with `CloudRecordCheck`, `TreeCheck`, `OwnerCheck`, `FieldCheck`, `ManifestCheck`, `ContentCheck`,
/// `UnusedContentCheck`, `ChunkCheck`. The daemon creates the examiner. The checks call index, content store and cloud,
/// and the engine through `DoctorAccess`.
package struct Examiner: Sendable {
    /// The largest number of looks in one examination.
    private static let maximumLooks = 4

    private let device: DoctorAccess

    package init(_ engine: SyncEngine) { device = DoctorAccess(engine) }

    /// Examines everything. While the mount is in use, it skips what is being changed.
    /// - Throws: errors of the index and of the disk.
    package func examine(_ options: ExaminationOptions) async throws -> Diagnosis {
        var options = options
        // Decide once, before any repair.
        if options.leavesLeftovers {
            let look = look(options)
            options.leavesLeftovers = try await device.pool.run { try look.hasTrustworthyLeftovers() }
        }
        if options.repairs, options.isAlone {
            // Do this first after a loss of power. Otherwise an incomplete replacement would count as the content, and
            // the content it replaced would be removed.
            try await device.pool.run { [device] in
                if try !device.index.hasUnreadableRows() { try device.restoreReplaced() }
            }
        }
        var diagnosis = try await look(options).run()
        guard options.repairs, options.isAlone else { return diagnosis }
        // A repair may have hidden other damage. Bytes are not read a second time.
        options.readsAll = options.readsAll && !diagnosis.isComplete
        options.isFurtherLook = true
        var hasRepaired = diagnosis.findings.contains(where: \.isRepaired), looks = 1
        while hasRepaired, diagnosis.isWholePicture, looks < Self.maximumLooks {
            looks += 1
            hasRepaired = diagnosis.merge(try await look(options).run())
        }
        return diagnosis
    }

    private func look(_ options: ExaminationOptions) -> Look {
        Look(context: CheckContext(device: device, options: options))
    }
}
