internal import UbiquityCore
internal import UbiquityWire

/// Compares a device's knowledge of a container with the container's history.
///
/// After an older copy of the cloud's data is put back, revisions count on from there. A device that knows more than
/// the copy may find its revision taken by another commit. The marks show that.
enum HistoryCheck {
    case same
    /// The device knows another incarnation and has not read the present one yet.
    case otherIncarnation
    /// The device knows a commit that this history lacks: the data is an older copy.
    case replaced

    /// - Parameter incarnation: the container's.
    init(
        _ point: FeedPoint, _ found: ContainerService.Found, incarnation: UInt64, _ tables: ContainerTables
    ) throws {
        if let known = point.incarnation, known != incarnation {
            self = .otherIncarnation
        } else if point.revision > found.revision {
            self = .replaced
        } else if point.mark != 0, point.incarnation != nil, let mark = try tables.mark(of: point.revision),
            mark != point.mark
        {
            self = .replaced
        } else {
            self = .same
        }
    }

    static let error = UbiquityError(
        .invalid, "the device's history differs from the container's",
        remedy: "none needed: an older copy of the cloud's data was restored, and devices upload what it lacks")
}

/// Rolls back a commit's transaction.
struct AnotherHistory: Error {
    var check: HistoryCheck
    var found: ContainerService.Found
}
