internal import CFUSE
internal import CUbiquityShims
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityVFS

// Answers to the process that replays what other devices have changed.
extension Reply {
    consuming func replayLookup(_ parent: UInt64, _ name: [UInt8], _ fileSystem: ContainerFileSystem) {
        answer(with: { try fileSystem.replayLookup(parent: parent, name: name) }) { reply, found in
            guard let found else {
                // Not to be remembered: for everybody else it is there.
                var absent = fuse_entry_param.absentNow
                return _ = reply.send { fuse_reply_entry($0, &absent) }
            }
            reply.entry(found, fileSystem)
        }
    }

    consuming func replayMaking(
        _ parent: UInt64, _ name: [UInt8], _ type: UInt32, _ fileSystem: ContainerFileSystem
    ) {
        answer(with: { try fileSystem.replayMaking(parent: parent, name: name, type: type) }) { reply, made in
            reply.entry(made, fileSystem)
        }
    }

    /// A file is made by opening it, as programs do, so that those who wait for its close hear of that as well. The
    /// handle is none: nothing is read or written through it, and a handle past the page cache does not keep the kernel
    /// from serving others itself.
    consuming func replayCreation(
        _ parent: UInt64, _ name: [UInt8], _ info: fuse_file_info,
        _ fileSystem: ContainerFileSystem
    ) {
        let body = { try fileSystem.replayMaking(parent: parent, name: name, type: FileMode.file) }
        answer(with: body) { reply, made in
            var entry = made.entry
            var info = info
            info.fh = UInt64.max
            info.direct_io = 1
            info.noflush = 1
            if !reply.send({ fuse_reply_create($0, &entry, &info) }) { fileSystem.forget(made.ino, 1) }
        }
    }

    consuming func replayRemoval(
        _ parent: UInt64, _ name: [UInt8], _ isDirectory: Bool, _ fileSystem: ContainerFileSystem
    ) {
        let body = { try fileSystem.replayRemoval(parent: parent, name: name, directory: isDirectory) }
        answer(with: body) { reply, _ in reply.done() }
    }

    consuming func replayRename(
        _ parent: UInt64, _ name: [UInt8], _ newParent: UInt64, _ newName: [UInt8], _ fileSystem: ContainerFileSystem
    ) {
        let body = {
            try fileSystem.replayRename(parent: parent, name: name, newParent: newParent, newName: newName)
        }
        answer(with: body) { reply, _ in reply.done() }
    }

    /// What no replay does.
    consuming func refuseReplay() { error(.ECANCELED) }
}
