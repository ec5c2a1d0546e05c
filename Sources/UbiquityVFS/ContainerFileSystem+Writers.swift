internal import UbiquitySystem
// For those who wait until all is said and done.
extension ContainerFileSystem {
    /// Inode numbers of the files that programs have open for writing; what they wrote may not be noted yet. (After
    /// close(2) has returned, the kernel's release is still on its way for a moment.)
    package var writtenInodes: [UInt64] {
        finishCloses()
        return openNodes.all.filter { node in node.state.withLock { $0.writers > 0 } }.map(\.ino)
    }
}
