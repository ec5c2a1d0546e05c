internal import CFUSE
internal import Glibc
internal import UbiquityVFS

/// The object that the callbacks get as libfuse's userdata: there is no global file system.
final class SessionContext: Sendable {
    let fileSystem: ClaimedFileSystem
    let handshake: Handshake
    let turn: ReadingTurn
    let rings: RequestRings

    init(fileSystem: ClaimedFileSystem, passthrough: KernelPassthrough, rings: RequestRings) {
        self.fileSystem = fileSystem
        self.rings = rings
        turn = ReadingTurn(policy: rings.policy)
        handshake = Handshake(passthrough, rings)
    }

    /// Sends an answer or a notification the way its request came; as writev(2).
    func send(_ vector: UnsafePointer<iovec>, _ count: Int32, _ device: Int32) -> Int {
        rings.answer(vector, count: Int(count)) ?? writev(device, vector, count)
    }

    static func of(_ userdata: UnsafeMutableRawPointer?) -> SessionContext? {
        userdata.map { Unmanaged<SessionContext>.fromOpaque($0).takeUnretainedValue() }
    }
}

/// Runs `body` with the file system and the reply to the request.
@inline(__always)
func serve(_ request: fuse_req_t?, _ body: (ClaimedFileSystem, consuming Reply) -> Void) {
    guard let request, let context = SessionContext.of(fuse_req_userdata(request)) else { return }
    body(context.fileSystem, Reply(request))
}

/// The bytes of a C string; none if there is no string.
@inline(__always)
func bytes(_ text: UnsafePointer<CChar>?) -> [UInt8] {
    guard let text else { return [] }
    return Array(
        UnsafeBufferPointer(start: UnsafeRawPointer(text).assumingMemoryBound(to: UInt8.self), count: strlen(text)))
}
