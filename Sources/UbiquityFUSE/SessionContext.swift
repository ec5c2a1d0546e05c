internal import CFUSE
internal import Glibc
internal import UbiquitySystem
internal import UbiquityVFS

/// The object that the callbacks get as libfuse's userdata: there is no global file system.
final class SessionContext: Sendable {
    let served: ServedFileSystems
    let handshake: Handshake
    let turn: ReadingTurn
    let rings: RequestRings

    init(fileSystem: ClaimedFileSystem, passthrough: KernelPassthrough, rings: RequestRings) {
        served = ServedFileSystems(fileSystem)
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

/// Runs `body` with the file system, the inode in it, and the reply to the request. Answers ESTALE for an inode of a
/// container that the mount no longer serves.
/// - Parameter node: the kernel's number of the inode that the request concerns.
@inline(__always)
func serve(_ request: fuse_req_t?, _ node: UInt64, _ body: (ClaimedFileSystem, UInt64, consuming Reply) -> Void) {
    guard let request, let context = SessionContext.of(fuse_req_userdata(request)) else { return }
    let fileSystem = context.served.current
    guard let ino = fileSystem.numbers.ino(node) else { return Reply(request).error(.ESTALE) }
    body(fileSystem, ino, Reply(request))
}

/// The same for requests that an open file of a former container still answers.
/// - Parameter departed: called instead for an inode of such a container, with the inode in it.
@inline(__always)
func serve(
    _ request: fuse_req_t?, _ node: UInt64, departed: (DepartedFiles, UInt64, consuming Reply) -> Void,
    _ body: (ClaimedFileSystem, UInt64, consuming Reply) -> Void
) {
    guard let request, let context = SessionContext.of(fuse_req_userdata(request)) else { return }
    let fileSystem = context.served.current
    if let ino = fileSystem.numbers.ino(node) { return body(fileSystem, ino, Reply(request)) }
    guard let (files, ino) = context.served.departed(node) else { return Reply(request).error(.ESTALE) }
    departed(files, ino, Reply(request))
}

/// The bytes of a C string; none if there is no string.
@inline(__always)
func bytes(_ text: UnsafePointer<CChar>?) -> [UInt8] {
    guard let text else { return [] }
    return Array(
        UnsafeBufferPointer(start: UnsafeRawPointer(text).assumingMemoryBound(to: UInt8.self), count: strlen(text)))
}
