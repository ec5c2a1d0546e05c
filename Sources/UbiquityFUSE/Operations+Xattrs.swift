internal import CFUSE
internal import UbiquityVFS

/// Operations on extended attributes.
func addXattrOperations(_ operations: inout fuse_lowlevel_ops) {
    operations.setxattr = { request, node, name, value, size, flags in
        serve(request, node) { fileSystem, ino, reply in
            let caller = reply.caller
            let value = [UInt8](UnsafeRawBufferPointer(start: value, count: size))
            let body = {
                try fileSystem.setXattr(of: ino, name: bytes(name), value: value, flags: flags, caller: caller)
            }
            reply.answerOrWait(with: body) { reply, _ in reply.done() }
        }
    }
    operations.getxattr = { request, node, name, size in
        serve(request, node) { fileSystem, ino, reply in
            reply.answer(with: { try fileSystem.xattr(of: ino, name: bytes(name)) }) { reply, value in
                reply.attribute(value, room: size)
            }
        }
    }
    operations.listxattr = { request, node, size in
        serve(request, node) { fileSystem, ino, reply in
            let caller = reply.caller
            reply.answer(with: { try fileSystem.xattrNames(of: ino, caller: caller) }) { reply, names in
                reply.attribute(names, room: size)
            }
        }
    }
    operations.removexattr = { request, node, name in
        serve(request, node) { fileSystem, ino, reply in
            let caller = reply.caller
            let body = { try fileSystem.removeXattr(of: ino, name: bytes(name), caller: caller) }
            reply.answerOrWait(with: body) { reply, _ in reply.done() }
        }
    }
}
