internal import CFUSE
internal import UbiquityVFS

/// libfuse's table of callbacks. Built in nonisolated functions, because the callbacks run on libfuse's threads.
func makeOperations() -> fuse_lowlevel_ops {
    var operations = fuse_lowlevel_ops()
    operations.`init` = { userdata, connection in
        if let connection { SessionContext.of(userdata)?.handshake.choose(&connection.pointee) }
    }
    addNameOperations(&operations)
    addNodeOperations(&operations)
    addFileOperations(&operations)
    addRangeOperations(&operations)
    addDirectoryOperations(&operations)
    addXattrOperations(&operations)
    return operations
}
