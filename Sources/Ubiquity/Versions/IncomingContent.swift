import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// A content on its way to the daemon: a copy in the folder that both may write.
struct IncomingContent: Sendable {
    /// Its name in the folder.
    let name: String
    /// The content's modification date, in seconds since 1970.
    let modifiedAt: Double
    private let path: String

    /// Copies a file, downloading it if needed. Blocks.
    init(of source: String, stateFolder: String) throws(UbiquityError) {
        var random = SystemRandomNumberGenerator()
        let name = String(random.next() as UInt64, radix: 36)
        let folder = Path.join(stateFolder, ControlRoute.incomingName), path = Path.join(folder, name)
        try describing("pass the content to the daemon", at: folder) { () throws(Errno) in
            try FileSystem.makeDirectories(folder)
        }
        let status = try describing("examine the content", at: source) { () throws(Errno) in
            try FileSystem.statusFollowing(source)
        }
        guard status.isFile else { throw UbiquityError(.notSupported, "only files can be versions", at: source) }
        do throws(Errno) {
            let input = try FileDescriptor.open(source, .readOnly)
            let output = try FileDescriptor.open(path, [.readWrite, .create, .exclusive])
            _ = try output.copy(from: input, at: 0, to: 0, count: .max)
            try output.sync()
        } catch {
            try? FileSystem.unlink(path)
            throw UbiquityError(error, doing: "copy the content", at: source)
        }
        self.name = name
        self.path = path
        modifiedAt = Double(status.modifiedAt.nanoseconds) / 1e9
    }

    /// Removes the copy, if the daemon has not taken it.
    func remove() { try? FileSystem.unlink(path) }
}
