internal import CFUSE
internal import CUbiquityShims
internal import UbiquitySystem
internal import UbiquityVFS

/// Operations on an open file.
func addFileOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.open = { request, node, info in
        serve(request, node) { fileSystem, ino, reply in
            guard let info = info?.pointee else { return reply.error(.EINVAL) }
            let caller = reply.caller
            if fileSystem.isReplay(caller) { return reply.refuseReplay() }
            let body = { try fileSystem.open(ino, flags: OpenFlags(rawValue: info.flags), caller: caller) }
            reply.answerOrWait(with: body) { reply, opened in reply.opened(opened, info, fileSystem) }
        }
    }
    operations.read = { request, node, size, offset, info in
        let departed = { (files: DepartedFiles, _: UInt64, reply: consuming Reply) in
            guard let handle = info?.pointee.fh else { return reply.error(.EBADF) }
            let body = { try files.read(handle, offset: Int64(offset), length: size) }
            reply.answer(with: body) { reply, data in reply.data(data) }
        }
        serve(request, node, departed: departed) { fileSystem, _, reply in
            guard let info = info?.pointee else { return reply.error(.EBADF) }
            let body = { try fileSystem.read(info.fh, offset: Int64(offset), length: size) }
            reply.answerOrWait(isRead: true, with: body) { reply, data in reply.data(data) }
        }
    }
    operations.write = { request, node, buffer, size, offset, info in
        serve(request, node) { fileSystem, _, reply in
            guard let info = info?.pointee else { return reply.error(.EBADF) }
            let data = UnsafeRawBufferPointer(start: buffer, count: size)
            let caller = reply.caller
            // In all other cases the kernel sends the fsync itself.
            let isSynced = info.flags & O_DSYNC != 0 && info.flags & CUbiquity_O_DIRECT != 0
            let body = {
                try fileSystem.writeWhenWritable(
                    info.fh, offset: Int64(offset), data, isSynced: isSynced, caller: caller)
            }
            reply.answerOrWait(with: body) { reply, count in reply.written(count) }
        }
    }
    operations.flush = { request, node, info in
        serve(request, node) { fileSystem, _, reply in
            guard let handle = info?.pointee.fh else { return reply.error(.EBADF) }
            reply.answer(with: { try fileSystem.flush(handle) }) { reply, _ in reply.done() }
        }
    }
    operations.release = { request, node, info in
        let departed = { (files: DepartedFiles, _: UInt64, reply: consuming Reply) in
            if let handle = info?.pointee.fh { files.release(handle) }
            reply.done()
        }
        serve(request, node, departed: departed) { fileSystem, _, reply in
            if let handle = info?.pointee.fh { fileSystem.release(handle) }
            reply.done()
        }
    }
    operations.fsync = { request, node, dataOnly, info in
        serve(request, node) { fileSystem, _, reply in
            guard let handle = info?.pointee.fh else { return reply.error(.EBADF) }
            reply.answer(with: { try fileSystem.sync(handle) }) { reply, _ in reply.done() }
        }
    }
}

/// Operations on a range of an open file.
func addRangeOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.fallocate = { request, node, mode, offset, length, info in
        serve(request, node) { fileSystem, _, reply in
            guard let handle = info?.pointee.fh else { return reply.error(.EBADF) }
            let caller = reply.caller
            let body = {
                try fileSystem.awaitWritable(handle).map {
                    try fileSystem.allocate(
                        handle, mode: mode, offset: Int64(offset), length: Int64(length), caller: caller)
                }
            }
            reply.answerOrWait(with: body) { reply, _ in reply.done() }
        }
    }
    operations.copy_file_range = { request, node, offset, info, newNode, newOffset, newInfo, length, flags in
        serve(request, node) { fileSystem, _, reply in
            guard fileSystem.numbers.ino(newNode) != nil else { return reply.error(.ESTALE) }
            guard let from = info?.pointee.fh, let to = newInfo?.pointee.fh else { return reply.error(.EBADF) }
            guard flags == 0 else { return reply.error(.EINVAL) }
            let caller = reply.caller
            let body = {
                try fileSystem.awaitWritable(to).map {
                    try fileSystem.copyRange(
                        from: from, at: Int64(offset), to: to, at: Int64(newOffset), length: Int64(length),
                        caller: caller)
                }
            }
            reply.answerOrWait(with: body) { reply, count in reply.written(Int(count)) }
        }
    }
    operations.lseek = { request, node, offset, whence, info in
        serve(request, node) { fileSystem, _, reply in
            guard let handle = info?.pointee.fh else { return reply.error(.EBADF) }
            let body = { try fileSystem.seek(handle, offset: Int64(offset), whence: whence) }
            reply.answer(with: body) { reply, position in reply.offset(position) }
        }
    }
}

extension Reply {
    /// Answers with a handle. If the kernel did not take the answer, it will never release the handle, so it is
    /// released here.
    consuming func opened(_ opened: OpenedFile, _ info: fuse_file_info, _ fileSystem: ClaimedFileSystem) {
        if let backing = opened.backing { return passed(opened, backing, info.flags, fileSystem) }
        var info = info
        info.fh = opened.handle
        info.keep_cache = opened.keepsCache ? 1 : 0
        info.direct_io = opened.bypassesPages ? 1 : 0
        // A flush has no effect: writes reach the backing file at once, and the last close is the release.
        info.noflush = 1
        if !send({ fuse_reply_open($0, &info) }) { fileSystem.release(opened.handle) }
    }

    private consuming func passed(
        _ opened: OpenedFile, _ backing: BackingID, _ flags: Int32, _ fileSystem: ClaimedFileSystem
    ) {
        var answer = CUbiquity_OpenReply(opened, backing, flags)
        let isTaken = send { request in
            withUnsafeBytes(of: &answer) { fuse_reply_buf(request, $0.baseAddress?.chars, $0.count) }
        }
        if !isTaken { fileSystem.release(opened.handle) }
    }
}
