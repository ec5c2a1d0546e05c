internal import CFUSE
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

/// Operations on an inode: attributes, link text, space.
func addNodeOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.getattr = { request, node, info in
        let departed = { (files: DepartedFiles, ino: UInt64, reply: consuming Reply) in
            reply.answer(with: { try files.attributes(of: ino) }) { reply, found in reply.attributes(found) }
        }
        serve(request, node, departed: departed) { fileSystem, ino, reply in
            if fileSystem.isReplay(reply.caller) {
                return reply.answer(with: { try fileSystem.replayAnswers.attributes(of: ino) }) { $0.attributes($1) }
            }
            let handle = info?.pointee.fh
            reply.answer(with: { try fileSystem.attributes(of: ino, handle: handle) }) { reply, found in
                reply.attributes(found)
            }
        }
    }
    operations.setattr = { request, node, status, fields, info in
        serve(request, node) { fileSystem, ino, reply in
            guard let status = status?.pointee else { return reply.error(.EINVAL) }
            if fileSystem.isReplay(reply.caller) {
                return reply.answer(with: { try fileSystem.replayAnswers.change(of: ino) }) { $0.attributes($1) }
            }
            let handle = info?.pointee.fh
            let caller = reply.caller
            let body = {
                try fileSystem.setAttributes(
                    of: ino, AttributeChanges(status, fields), handle: handle, caller: caller)
            }
            reply.answerOrWait(with: body) { reply, found in reply.attributes(found) }
        }
    }
    operations.readlink = { request, node in
        serve(request, node) { fileSystem, ino, reply in
            reply.answer(with: { try fileSystem.readLink(ino) }) { reply, target in
                let text = target.map(CChar.init(bitPattern:)) + [0]
                reply.send { fuse_reply_readlink($0, text) }
            }
        }
    }
    operations.statfs = { request, _ in
        serve(request, 1) { fileSystem, _, reply in
            reply.answer(with: { try fileSystem.statistics() }) { reply, found in
                var status = found.status
                reply.send { fuse_reply_statfs($0, &status) }
            }
        }
    }
}

extension Reply {
    consuming func attributes(_ attributes: NodeAttributes) {
        var status = attributes.status
        send { fuse_reply_attr($0, &status, attributes.attributeTime) }
    }
}

extension AttributeChanges {
    /// FATTR_FH, FATTR_LOCKOWNER, FATTR_CTIME and FATTR_KILL_SUIDGID: they qualify a change and are none.
    private static let ofNoChange: Int32 = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11

    fileprivate init(_ status: stat, _ fields: Int32) {
        func has(_ field: Int32) -> Bool { fields & field != 0 }
        self.init()
        if has(FUSE_SET_ATTR_MODE) { mode = status.st_mode & FileMode.permissions }
        if has(FUSE_SET_ATTR_UID) { uid = status.st_uid }
        if has(FUSE_SET_ATTR_GID) { gid = status.st_gid }
        if has(FUSE_SET_ATTR_SIZE) { size = Int64(status.st_size) }
        if has(FUSE_SET_ATTR_ATIME_NOW) {
            accessedAt = .now
        } else if has(FUSE_SET_ATTR_ATIME) {
            accessedAt = .at(Timestamp(status.st_atim))
        }
        if has(FUSE_SET_ATTR_MTIME_NOW) {
            modifiedAt = .now
        } else if has(FUSE_SET_ATTR_MTIME) {
            modifiedAt = .at(Timestamp(status.st_mtim))
        }
        // The kernel sends such a request only to drop privileges (fuse_setattr in its fs/fuse/dir.c, with
        // HANDLE_KILLPRIV_V2). It is the only sign of a write that bypasses this process.
        dropsPrivileges = fields & ~Self.ofNoChange == 0
    }
}

extension FileSystemStatus {
    fileprivate var status: statvfs {
        var status = statvfs()
        status.f_bsize = UInt(blockSize)
        status.f_frsize = UInt(blockSize)
        status.f_blocks = UInt(blocks)
        status.f_bfree = UInt(freeBlocks)
        status.f_bavail = UInt(availableBlocks)
        status.f_files = UInt(files)
        status.f_ffree = UInt(freeFiles)
        status.f_favail = UInt(freeFiles)
        status.f_namemax = UInt(Limits.maximumNameLength)
        return status
    }
}
