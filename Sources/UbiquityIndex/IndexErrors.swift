import GRDB
internal import UbiquityCore
internal import UbiquitySystem

/// Runs `body` and converts database errors to `UbiquityError`.
func mapErrors<T>(_ body: () throws -> T) throws -> T {
    do {
        return try body()
    } catch let error as DatabaseError {
        throw UbiquityError(
            error.resultCode == .SQLITE_FULL ? .noSpace : .io, "the index failed: \(error.message ?? "\(error)")",
            remedy: remedy(error))
    } catch let error as Errno {
        throw UbiquityError(error, doing: "use the index")
    }
}

private func remedy(_ error: DatabaseError) -> String {
    switch error.resultCode {
    case .SQLITE_FULL: "free some space on the disk"
    case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR:
        "run 'ubiquity doctor --state DIR': it repairs or rebuilds the index and keeps files that are only here"
    default: "check the disk and the log"
    }
}
