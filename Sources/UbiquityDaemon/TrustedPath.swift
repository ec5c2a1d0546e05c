import UbiquityCore
import UbiquitySystem

/// Checks that only this user and root can change a file or a folder (`TrustedFolders`).
package enum TrustedPath {
    /// Throws `.notPermitted` with the folder to change and how. A path that does not exist yet is checked as far as it
    /// does.
    /// - Parameter purpose: names the path in the message, for example "the state folder".
    package static func require(_ path: String, as purpose: String) throws(UbiquityError) {
        let full = try AbsolutePath.resolved(path)
        let found = try describing("check who may change it", at: path) {
            () throws(Errno) -> (folder: String, doubt: TrustedFolders.Doubt)? in
            let trusted = try TrustedFolders()
            do throws(Errno) {
                if let doubt = trusted.doubt(about: try FileSystem.status(full), isAbove: false) {
                    return (full, doubt)
                }
            } catch .ENOENT {}
            return try trusted.doubt(aboveFolder: full)
        }
        guard let found else { return }
        switch found.doubt {
        case .owner(let user):
            throw UbiquityError(
                .notPermitted,
                "\(purpose) is not used: \(UserName.text(user)) owns it or a folder above it, and this program "
                    + "runs as \(UserName.own)",
                at: found.folder, remedy: "change its owner with 'chown', or use a path that this user or root owns")
        case .writableByOthers:
            throw UbiquityError(
                .notPermitted, "\(purpose) is not used: other users may write to it or to a folder above it",
                at: found.folder, remedy: "run: chmod go-w \(found.folder)")
        }
    }
}
