import UbiquityCore
import UbiquitySystem

/// Runs `body` and converts errors of the system or a daemon to the library's `UbiquitousFileError`. Errors of the
/// calling program stay as they are.
func mappingFileErrors<Result>(isWriting: Bool, _ body: () async throws -> Result) async throws -> Result {
    do { return try await body() } catch let error as Errno {
        throw UbiquitousFileError(UbiquityError(error, doing: "use the file"), isWriting: isWriting)
    } catch {
        throw UbiquitousFileError.from(error, isWriting: isWriting)
    }
}
