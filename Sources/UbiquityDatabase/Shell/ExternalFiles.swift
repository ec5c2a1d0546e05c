import FoundationEssentials
import Ubiquity
import UbiquityCore
import UbiquitySystem

/// Large values of a database, as files of the container. A row stores a file's name; the file travels by itself, and
/// may be a placeholder.
///
/// - Source: "Allows External Storage" of Core Data.
public struct ExternalFiles: Sendable {
    /// The folder of the files.
    public let folder: URL

    /// Makes the files of a database.
    ///
    /// - Parameter name: The database's name.
    /// - Parameter container: The folder of the container.
    /// - Throws: `UbiquitousFileError` if the folder cannot be made.
    public init(of name: String, in container: URL) throws {
        folder = container.appending(path: "\(name).files", directoryHint: .isDirectory)
        do throws(Errno) { try FileSystem.makeDirectories(folder.path) } catch {
            throw UbiquitousFileError(UbiquityError(error, doing: "make the folder of external files", at: folder.path))
        }
    }

    /// Writes a value as a new file. Write the row after it, so that no row names a missing file.
    ///
    /// - Parameter data: The value.
    /// - Parameter suffix: The end of the file's name, such as ".jpg".
    /// - Returns: The file's name, for the row.
    /// - Throws: `UbiquitousFileError`.
    public func add(_ data: Data, suffix: String = "") throws -> String {
        let name = UUID().uuidString + suffix
        do { try SmallFile.publish(Array(data), at: url(of: name).path) } catch { throw UbiquitousFileError(error) }
        return name
    }

    /// The URL of a file. Reading a placeholder downloads it.
    ///
    /// - Parameter name: The file's name.
    public func url(of name: String) -> URL { folder.appending(path: name, directoryHint: .notDirectory) }

    /// Whether the file's content is on this device.
    ///
    /// - Parameter name: The file's name.
    public func isHere(_ name: String) -> Bool {
        let values = try? UbiquitousItem(at: url(of: name)).resourceValues(forKeys: [.downloadingStatus])
        return values?.ubiquitousItemDownloadingStatus != .notDownloaded
    }

    /// Removes files. Call it after no row names them any more.
    ///
    /// - Parameter names: The files' names. A file that does not exist is no error.
    /// - Throws: `UbiquitousFileError`.
    public func remove(_ names: [String]) throws {
        for name in names {
            do throws(Errno) { try FileSystem.unlink(url(of: name).path) } catch .ENOENT {} catch {
                let place = url(of: name).path
                throw UbiquitousFileError(UbiquityError(error, doing: "remove an external file", at: place))
            }
        }
    }
}
