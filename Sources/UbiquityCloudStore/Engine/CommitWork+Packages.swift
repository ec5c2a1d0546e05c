internal import UbiquityCore
internal import UbiquityWire

// Packages: folders that are one document. Which folders are that, the devices know; a commit names those that it is
// about, and their folders' records tell when and by whom they were changed last.
extension CommitWork {
    /// Of two devices that changed one package without knowing of each other the second is refused: it decides about
    /// the whole with both states at hand, and commits what stands and what is kept.
    func checkPackages() throws {
        for package in request.packages {
            // What this commit creates has no state before.
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

    /// Of what lies in the package, or of its deletion.
    private static func lastChange(of record: ItemRecord) -> FieldStamp {
        let stamps = record.stamps
        return stamps.existence.revision > stamps.content.revision ? stamps.existence : stamps.content
    }

    private func stamp(of package: PackageEdit) -> FieldStamp {
        FieldStamp(revision: revision.next, time: corrected(package.changedAt), device: request.device)
    }

    /// Whether the item is a package that this commit tells of: one that is new is never made one with another of its
    /// name, as that would mix their members.
    func isPackage(_ id: ItemID) -> Bool { request.packages.contains { $0.id == id } }

    /// Whether all of the package is in this commit: one of many parts has no base.
    func isWhole(_ package: ItemID) -> Bool { request.packages.contains { $0.id == package && $0.base != nil } }

    /// Writes down that the packages were changed, and keeps the states that have lost.
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
        // Of another device's state the time came from here (`PackageConflict`).
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
