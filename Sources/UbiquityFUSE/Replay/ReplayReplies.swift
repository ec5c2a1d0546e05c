internal import CFUSE
internal import CUbiquityShims
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

// Answers to the process that replays remote changes.
extension Reply {
    consuming func replayLookup(_ parent: UInt64, _ name: [UInt8], _ fileSystem: ClaimedFileSystem) {
        answer(with: { try fileSystem.replayAnswers.lookup(parent: parent, name: name) }) { reply, found in
            guard let found else {
                // Not cached: for every other process the name exists.
                var absent = fuse_entry_param.absentNow
                return _ = reply.send { fuse_reply_entry($0, &absent) }
            }
            reply.entry(found, fileSystem)
        }
    }

    consuming func replayMaking(
        _ parent: UInt64, _ name: [UInt8], _ type: UInt32, _ fileSystem: ClaimedFileSystem
    ) {
        answer(with: { try fileSystem.replayAnswers.make(parent: parent, name: name, type: type) }) { reply, made in
            reply.entry(made, fileSystem)
        }
    }

    /// Creates a file by opening it, as programs do, so that programs waiting for its close get that event too. The
    /// handle is a dummy: nothing is read or written through it. A handle that bypasses the page cache does not keep
    /// the kernel from serving others directly.
    consuming func replayCreation(
        _ parent: UInt64, _ name: [UInt8], _ info: fuse_file_info,
        _ fileSystem: ClaimedFileSystem
    ) {
        let body = { try fileSystem.replayAnswers.make(parent: parent, name: name, type: FileMode.file) }
        answer(with: body) { reply, made in
            var entry = made.entry(fileSystem.numbers)
            var info = info
            info.fh = UInt64.max
            info.direct_io = 1
            info.noflush = 1
            if !reply.send({ fuse_reply_create($0, &entry, &info) }) { fileSystem.forget(made.ino, 1) }
        }
    }

    consuming func replayRemoval(
        _ parent: UInt64, _ name: [UInt8], _ isDirectory: Bool, _ fileSystem: ClaimedFileSystem
    ) {
        let body = { try fileSystem.replayAnswers.remove(parent: parent, name: name, directory: isDirectory) }
        answer(with: body) { reply, _ in reply.done() }
    }

    consuming func replayRename(
        _ parent: UInt64, _ name: [UInt8], _ newParent: UInt64, _ newName: [UInt8], _ fileSystem: ClaimedFileSystem
    ) {
        let body = {
            try fileSystem.replayAnswers.rename(parent: parent, name: name, newParent: newParent, newName: newName)
        }
        answer(with: body) { reply, _ in reply.done() }
    }

    /// Refuses a request that no replay makes.
    consuming func refuseReplay() { error(.ECANCELED) }
}
