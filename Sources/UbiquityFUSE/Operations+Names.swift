internal import CFUSE
internal import CUbiquityShims
internal import UbiquitySystem
internal import UbiquityVFS

/// Operations on a name in a directory.
func addNameOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.lookup = { request, folder, name in
        serve(request, folder) { fileSystem, parent, reply in
            if fileSystem.isReplay(reply.caller) { return reply.replayLookup(parent, bytes(name), fileSystem) }
            let caller = reply.caller
            let mayAppear = fileSystem.showsConflicts && fileSystem.mayShowConflict(bytes(name))
            let body = { try fileSystem.lookup(parent: parent, name: bytes(name), caller: caller) }
            reply.answerOrWait(with: body) { reply, found in
                guard let found else {
                    let isForgotten = mayAppear || fileSystem.isInVersions(parent)
                    var absent = isForgotten ? fuse_entry_param.absentNow : .absent
                    return _ = reply.send { fuse_reply_entry($0, &absent) }
                }
                reply.entry(found, fileSystem)
            }
        }
    }
    operations.forget = { request, node, count in
        serve(request, 1) { fileSystem, _, reply in
            if let ino = fileSystem.numbers.ino(node) { fileSystem.forget(ino, count) }
            reply.none()
        }
    }
    operations.forget_multi = { request, count, list in
        serve(request, 1) { fileSystem, _, reply in
            for item in UnsafeBufferPointer(start: list, count: count) {
                if let ino = fileSystem.numbers.ino(item.ino) { fileSystem.forget(ino, item.nlookup) }
            }
            reply.none()
        }
    }
    operations.unlink = { request, folder, name in
        serve(request, folder) { fileSystem, parent, reply in
            let caller = reply.caller
            if fileSystem.isReplay(caller) { return reply.replayRemoval(parent, bytes(name), false, fileSystem) }
            let body = { try fileSystem.unlink(parent: parent, name: bytes(name), caller: caller) }
            reply.answerOrWait(with: body) { reply, _ in reply.done() }
        }
    }
    operations.rmdir = { request, folder, name in
        serve(request, folder) { fileSystem, parent, reply in
            let caller = reply.caller
            if fileSystem.isReplay(caller) { return reply.replayRemoval(parent, bytes(name), true, fileSystem) }
            let body = { try fileSystem.removeDirectory(parent: parent, name: bytes(name), caller: caller) }
            reply.answerOrWait(with: body) { reply, _ in reply.done() }
        }
    }
    operations.rename = { request, folder, name, newFolder, newName, flags in
        serve(request, folder) { fileSystem, parent, reply in
            guard let newParent = fileSystem.numbers.ino(newFolder) else { return reply.error(.ESTALE) }
            let caller = reply.caller
            if fileSystem.isReplay(caller) {
                return reply.replayRename(parent, bytes(name), newParent, bytes(newName), fileSystem)
            }
            let body = {
                try fileSystem.rename(
                    parent: parent, name: bytes(name), newParent: newParent, newName: bytes(newName), flags: flags,
                    caller: caller)
            }
            reply.answerOrWait(with: body) { reply, _ in reply.done() }
        }
    }
    addMakingOperations(&operations)
}

/// Operations that create an item.
private func addMakingOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.mknod = { request, folder, name, mode, device in
        serve(request, folder) { fileSystem, parent, reply in
            let caller = reply.caller
            if fileSystem.isReplay(caller) { return reply.refuseReplay() }
            // The kernel packs a device number into 32 bits, here as in attributes.
            let number = UInt32(truncatingIfNeeded: device)
            let body = {
                try fileSystem.makeNode(parent: parent, name: bytes(name), mode: mode, device: number, caller: caller)
            }
            reply.answerOrWait(with: body) { reply, made in reply.entry(made, fileSystem) }
        }
    }
    operations.mkdir = { request, folder, name, mode in
        serve(request, folder) { fileSystem, parent, reply in
            let caller = reply.caller
            if fileSystem.isReplay(caller) {
                return reply.replayMaking(parent, bytes(name), FileMode.directory, fileSystem)
            }
            let body = {
                try fileSystem.makeDirectory(parent: parent, name: bytes(name), mode: mode, caller: caller)
            }
            reply.answerOrWait(with: body) { reply, made in reply.entry(made, fileSystem) }
        }
    }
    operations.symlink = { request, target, folder, name in
        serve(request, folder) { fileSystem, parent, reply in
            let caller = reply.caller
            if fileSystem.isReplay(caller) {
                return reply.replayMaking(parent, bytes(name), FileMode.symlink, fileSystem)
            }
            let body = {
                try fileSystem.makeSymlink(
                    parent: parent, name: bytes(name), target: bytes(target), caller: caller)
            }
            reply.answerOrWait(with: body) { reply, made in reply.entry(made, fileSystem) }
        }
    }
    operations.link = { request, node, newFolder, newName in
        serve(request, node) { fileSystem, ino, reply in
            guard let newParent = fileSystem.numbers.ino(newFolder) else { return reply.error(.ESTALE) }
            let caller = reply.caller
            if fileSystem.isReplay(caller) { return reply.refuseReplay() }
            let body = {
                try fileSystem.link(ino, newParent: newParent, newName: bytes(newName), caller: caller)
            }
            reply.answerOrWait(with: body) { reply, made in reply.entry(made, fileSystem) }
        }
    }
    operations.create = { request, folder, name, mode, info in
        serve(request, folder) { fileSystem, parent, reply in
            guard let info = info?.pointee else { return reply.error(.EINVAL) }
            let caller = reply.caller
            if fileSystem.isReplay(caller) { return reply.replayCreation(parent, bytes(name), info, fileSystem) }
            if UnnamedFiles.isMeant(by: name) {
                let flags = OpenFlags(rawValue: info.flags)
                let body = { try fileSystem.createUnnamed(parent: parent, mode: mode, flags: flags, caller: caller) }
                return reply.answer(with: body) { reply, made in reply.created(made, info, fileSystem) }
            }
            let body = {
                try fileSystem.create(
                    parent: parent, name: bytes(name), mode: mode, flags: OpenFlags(rawValue: info.flags),
                    caller: caller)
            }
            reply.answerOrWait(with: body) { reply, made in reply.created(made, info, fileSystem) }
        }
    }
}

extension Reply {
    /// Answers with an entry, which the kernel then knows. If the kernel did not take the answer, the lookup is taken
    /// back.
    consuming func entry(_ attributes: NodeAttributes, _ fileSystem: ClaimedFileSystem) {
        var entry = attributes.entry(fileSystem.numbers)
        if !send({ fuse_reply_entry($0, &entry) }) { fileSystem.forget(attributes.ino, 1) }
    }

    consuming func created(_ made: CreatedFile, _ info: fuse_file_info, _ fileSystem: ClaimedFileSystem) {
        if let backing = made.opened.backing { return passed(made, backing, info.flags, fileSystem) }
        var entry = made.attributes.entry(fileSystem.numbers)
        var info = info
        info.fh = made.opened.handle
        info.keep_cache = made.opened.keepsCache ? 1 : 0
        info.noflush = 1
        if !send({ fuse_reply_create($0, &entry, &info) }) {
            fileSystem.release(made.opened.handle)
            fileSystem.forget(made.attributes.ino, 1)
        }
    }

    private consuming func passed(
        _ made: CreatedFile, _ backing: BackingID, _ flags: Int32, _ fileSystem: ClaimedFileSystem
    ) {
        var answer = CUbiquity_CreateReply(
            made.attributes, fileSystem.numbers, CUbiquity_OpenReply(made.opened, backing, flags))
        let isTaken = send { request in
            withUnsafeBytes(of: &answer) { fuse_reply_buf(request, $0.baseAddress?.chars, $0.count) }
        }
        if !isTaken {
            fileSystem.release(made.opened.handle)
            fileSystem.forget(made.attributes.ino, 1)
        }
    }
}
