internal import UbiquitySystem
// For `wait`: files that are still being written.
extension ContainerFileSystem {
    /// Inode numbers of the files that programs have open for writing; their writes may not be recorded yet. (After
    /// close(2) has returned, the kernel's release follows a moment later.)
    package var writtenInodes: [UInt64] {
        finishCloses()
        return openNodes.all.filter { node in node.state.withLock { $0.writers > 0 } }.map(\.ino)
    }
}
