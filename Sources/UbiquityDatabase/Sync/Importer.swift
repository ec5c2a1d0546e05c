import FoundationEssentials
import GRDB
import UbiquityCore
import UbiquitySystem

/// Brings other devices' entries into the database.
package struct Importer: Sendable {
    /// The result of an import, and why it is not complete.
    package struct Outcome: Sendable {
        package var changes: ImportedChanges
        /// Files are not here yet.
        package var isMissing = false
        /// A newer program wrote entries; they wait.
        package var waitsForNewerProgram = false
        /// Logs that cannot be read, with the reason.
        package var damage: [String] = []

        package init(changes: ImportedChanges = ImportedChanges()) { self.changes = changes }
        package var isComplete: Bool { !isMissing && !waitsForNewerProgram && damage.isEmpty }
    }

    let context: LogContext

    package init(_ context: LogContext) { self.context = context }

    /// Imports everything that has arrived. `report` gets the changes after each transaction.
    @discardableResult
    package func run(_ report: (ImportedChanges) -> Void = { _ in }) throws -> Outcome {
        var outcome = Outcome()
        let listing = try LogListing(context.store)
        try readRecords(listing)
        if let base = listing.bases.last {
            if base.schema > context.schema.version { outcome.waitsForNewerProgram = true }
            if let changes = try BaseImport(context, base, listing).runIfNeeded() { report(changes) }
        }
        var isProgressing = true
        while isProgressing {
            let step = try importStep(listing, &outcome)
            isProgressing = step.hasRead
            if !step.changes.isEmpty { report(step.changes) }
        }
        return outcome
    }

    /// Reads what devices say of themselves.
    private func readRecords(_ listing: LogListing) throws {
        var records: [(DeviceID, [UInt8])] = []
        for device in listing.devices {
            guard let bytes = try context.store.read(LogName.device(device).path, from: 0),
                (try? DeviceRecord(bytes)) != nil
            else { continue }
            records.append((device, bytes))
        }
        try context.writer.write { db in
            let devices = try DeviceTable(db), own = try Meta.deviceID(db)
            for (device, bytes) in records where device != own {
                if try devices.setRecord(bytes, device) { try devices.touch(device, at: context.now()) }
            }
        }
    }

    private func importStep(
        _ listing: LogListing, _ outcome: inout Outcome
    ) throws -> (hasRead: Bool, changes: ImportedChanges) {
        let (own, positions) = try context.writer.read { db in
            let devices = try DeviceTable(db)
            return (try Meta.deviceID(db), try devices.positions())
        }
        let reader = SegmentReader(store: context.store, schema: context.schema.version, fault: context.fault)
        let retired = listing.bases.last?.retired ?? [:]
        var found: [(device: DeviceID, parts: [SegmentReader.Part])] = []
        (outcome.isMissing, outcome.damage) = (false, [])
        for (device, segments) in listing.segments.sorted(by: { $0.key < $1.key }) where device != own {
            let position = positions[device] ?? LogPosition(), cutoff = retired[device]
            if let cutoff, position.time >= cutoff { continue }
            let (parts, stop) = try reader.read(
                segments, from: position, limit: context.limits.importBytes, cutoff: cutoff)
            switch stop {
            case .atEnd: break
            case .missing: outcome.isMissing = true
            case .newerSchema: outcome.waitsForNewerProgram = true
            case .damaged(let reason): outcome.damage.append(reason)
            }
            if !parts.isEmpty { found.append((device, parts)) }
        }
        guard !found.isEmpty else { return (false, ImportedChanges()) }
        return (true, try merge(found))
    }

    private func merge(_ found: [(device: DeviceID, parts: [SegmentReader.Part])]) throws -> ImportedChanges {
        try context.merging { db in
            try Outbox(context).absorb(db)
            let devices = try DeviceTable(db)
            var merger = try context.merger(db, devices), bytes = 0
            for (device, parts) in found {
                for part in parts {
                    let mapping = part.tables.mapping(to: context.schema)
                    for entry in part.entries {
                        context.clock.observe(entry.time)
                        let stamp = Stamp(entry.time, device)
                        for delta in entry.deltas(stamp, mapping, part.tables) { try merger.merge(delta) }
                    }
                    bytes += part.length
                    try devices.set(part.end, device)
                }
                try devices.touch(device, at: context.now())
            }
            try merger.finish()
            try Meta.logBytes.set((try Meta.logBytes.int(db) ?? 0) + Int64(bytes), db)
            context.hasNews.withLock { $0 = true }
            return merger.changes
        }
    }
}
