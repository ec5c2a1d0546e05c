internal import UbiquityCore
internal import UbiquitySystem

extension Cloud {
    /// Ensures that after this many bytes of chunks the disk still has space for the database. Other writes, deletions
    /// above all, must succeed on a disk that is full of chunks.
    /// - Throws: `.noSpace`; `.offline` if the folder is missing.
    func requireRoom(for bytes: Int) throws {
        try requirePlace()
        let disk = try describing("look at the cloud's disk", at: folder) { () throws(Errno) in
            try FileSystem.fileSystemStatus(folder)
        }
        let reserve = min(CloudLimits.databaseRoom, disk.totalBytes / CloudLimits.databaseShare)
        guard disk.availableBytes - Int64(bytes) >= reserve else {
            throw UbiquityError(
                .noSpace,
                "the cloud's disk is full: \(ByteSize.text(Int64(bytes))) needed, "
                    + "\(ByteSize.text(max(0, disk.availableBytes - reserve))) left for contents",
                remedy: "free some space on the disk of the cloud's data folder")
        }
    }
}
