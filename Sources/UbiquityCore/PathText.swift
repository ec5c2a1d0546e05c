// Paths as text. Two canonically equivalent strings are equal for `==` and `hasPrefix`, and are two files.
extension StringProtocol {
    /// Whether both are the same path.
    package func isSamePath(as other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }

    /// Whether it is in the folder, at any depth, and not the folder itself.
    /// - Parameter folder: without a "/" at its end.
    package func isPath(in folder: some StringProtocol) -> Bool {
        utf8.starts(with: folder.utf8) && utf8.dropFirst(folder.utf8.count).first == UInt8(ascii: "/")
    }
}
