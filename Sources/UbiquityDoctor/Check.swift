internal import Logging
internal import UbiquityContent
internal import UbiquityCore
internal import UbiquityIndex
internal import UbiquitySync
internal import UbiquitySystem
internal import UbiquityWire

/// The surroundings of the checks of one look.
struct CheckContext: Sendable {
    let device: DoctorAccess
    let options: ExaminationOptions
}

/// A part of an examination. It compares two sides, and repairs one from the other if the options say so.
protocol Check: Sendable {
    var context: CheckContext { get }
}

extension Check {
    var device: DoctorAccess { context.device }
    var options: ExaminationOptions { context.options }
    var index: ItemIndex { device.index }
    var store: ContentStore { device.store }
    var service: any CloudService { device.service }
    var configuration: SyncConfiguration { device.configuration }
    var timekeeper: any Timekeeper { device.timekeeper }
    var pool: BlockingPool { device.pool }
    var logger: Logger { device.logger }

    /// The item's path, or its id if it has none.
    func subject(_ row: ItemRow) throws -> String {
        try index.read { try $0.path(of: row.key) }.map { $0.map(\.description).joined(separator: "/") } ?? "\(row.id)"
    }

    func isInUse(_ row: ItemRow) throws -> Bool {
        try row.isWriting || device.isDownloading(row.key) || device.whileClosed(row.key) { true } == nil
    }

    /// Marks the item's content as changed by a program, so that it is uploaded.
    func markChanged(_ row: ItemRow) throws {
        _ = try index.noteWriting(
            ino: row.ino, changed: true, size: row.size, modifiedAt: row.modifiedAt, stillOpen: false)
    }
}
