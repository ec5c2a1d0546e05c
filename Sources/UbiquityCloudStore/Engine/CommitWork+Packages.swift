internal import UbiquityCore
internal import UbiquityWire

// Packages: folders that are one document. The devices know which folders are packages. A commit names the ones it
// concerns, and their folder records show the last change and its device.
extension CommitWork {
    /// Throws `PackageConflict` for the second of two devices that changed one package independently. That device then
    /// decides about the whole package with both states at hand, and commits the state to use and the state to keep.
    func checkPackages() throws {
        for package in request.packages {
            // A package that this commit creates has no earlier state.
            guard let base = package.base, let record = try state.item(package.id), record.kind == .directory else {
                continue
            }
            let last = Self.lastChange(of: record)
            guard last.revision > base, last.device != request.device else { continue }
            let stamp = stamp(of: package)
            throw PackageConflict(
                package: package.id, revision: revision, isYoursNewer: last < stamp, modifiedAt: last.time,
                device: last.device, deviceName: try state.name(of: last.device) ?? "")
        }
    }

    /// The last change of the package's contents, or its deletion.
    private static func lastChange(of record: ItemRecord) -> FieldStamp {
        let stamps = record.stamps
        return stamps.existence.revision > stamps.content.revision ? stamps.existence : stamps.content
    }

    private func stamp(of package: PackageEdit) -> FieldStamp {
        FieldStamp(revision: revision.next, time: corrected(package.changedAt), device: request.device)
    }

    /// Whether the item is a package that this commit names. A new package is never merged with another of its name,
    /// because that would mix their members.
    func isPackage(_ id: ItemID) -> Bool { request.packages.contains { $0.id == id } }

    /// Whether this commit has the complete package: one sent in several parts has no base.
    func isWhole(_ package: ItemID) -> Bool { request.packages.contains { $0.id == package && $0.base != nil } }

    /// Records the change of the packages, and keeps the losing states.
    func notePackages() throws {
        for package in request.packages {
            guard let record = try record(package.id), record.kind == .directory, record.isLive else { continue }
            if drafts.values.contains(where: { $0.record.id != package.id && $0.isChanged }) {
                var stamp = stamp(of: package)
                stamp.time = max(stamp.time, record.stamps.content.time)
                try update(package.id) { $0.record.stamps.content = stamp }
            }
            if let lost = package.lost { try keep(lost, of: record) }
        }
    }

    private func keep(_ lost: LostPackage, of record: ItemRecord) throws {
        guard try version(lost.version) == nil,
            try !conflicts(of: record.id).contains(where: { $0.manifest == lost.manifest })
        else { return }
        newManifests.append(lost.manifest)
        // The cloud itself sent the time of another device's state (`PackageConflict`).
        let modifiedAt = lost.device == request.device ? corrected(lost.modifiedAt) : min(lost.modifiedAt, now)
        put(
            VersionRecord(
                id: lost.version, item: record.id, role: .conflict, size: lost.size,
                modifiedAt: modifiedAt, device: lost.device, deviceName: lost.deviceName,
                baseVersion: nil, savedName: record.name, manifest: lost.manifest, savedAt: now))
        try update(record.id) { draft in
            draft.record.conflictCount += 1
            draft.record.conflictBytes += lost.size
        }
    }
}
