// Comparison of paths as text. Canonically equivalent strings are equal for `==` and `hasPrefix`, but name two files.
extension StringProtocol {
    /// Returns whether both are the same path.
    package func isSamePath(as other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }

    /// Returns whether the path is in the folder, at any depth, and not the folder itself.
    ///
    /// - Parameter folder: The folder's path, without a trailing "/".
    package func isPath(in folder: some StringProtocol) -> Bool {
        utf8.starts(with: folder.utf8) && utf8.dropFirst(folder.utf8.count).first == UInt8(ascii: "/")
    }
}
