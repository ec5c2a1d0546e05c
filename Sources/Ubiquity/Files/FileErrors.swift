import UbiquityCore
import UbiquitySystem

/// Runs what calls the system or a daemon, and gives its failures the form that the library's users know. A program's
/// own errors stay as they are.
func mappingFileErrors<Result>(isWriting: Bool, _ body: () async throws -> Result) async throws -> Result {
    do { return try await body() } catch let error as Errno {
        throw UbiquitousFileError(UbiquityError(error, doing: "use the file"), isWriting: isWriting)
    } catch {
        throw UbiquitousFileError.from(error, isWriting: isWriting)
    }
}
