import UbiquityControl
import UbiquityCore
import UbiquitySync
import UbiquitySystem

/// The file that says that the cloud refuses the device's sign-in: a revoked token, or a deleted account. Programs then
/// get no identity token. The next sign-in makes the file meaningless, because it names the refused one.
struct RefusedSignIn: Sendable {
    let deviceFolder: String

    private var path: String { Path.join(deviceFolder, DeviceFiles.refusedName) }

    /// Writes or removes the file if the connection's state requires it.
    func record(_ status: ConnectionStatus) throws {
        guard status.phase == .signedOut || status.phase == .online else { return }
        let files = try DeviceFiles.read(deviceFolder)
        guard !files.isOff, files.account?.isSignedOut != true, let refusal = files.refusal else { return }
        let isRefused = status.phase == .signedOut
        guard isRefused != (files.refused == refusal) else { return }
        if isRefused {
            try SmallFile.publish(refusal, at: path)
        } else {
            try describing("remove a file of the account", at: path) { () throws(Errno) in
                do throws(Errno) { try FileSystem.unlink(path) } catch .ENOENT {}
            }
        }
    }
}
