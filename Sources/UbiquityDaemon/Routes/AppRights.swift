import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// Refuses requests of apps that may not use the mount's container: `app.NAME = CONTAINER` in the configuration lists
/// the containers of an app. A program names its app in the header `Ubiquity-App`.
///
/// The socket is this user's alone, so the name keeps well-behaved apps apart. It stops no program that lies: such a
/// program could read the files of the mount too.
struct AppRights: RouterMiddleware {
    typealias Context = BasicRequestContext

    let container: ContainerID
    /// Reads the configuration, so that a change counts from the next request on.
    let configuration: @Sendable () async throws -> UserConfiguration

    func handle(
        _ request: Request, context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        guard let app = request.headers.first(where: { $0.name.canonicalName == ControlRoute.appHeader })?.value else {
            return try await next(request, context)
        }
        do {
            try Self.require(app, container, try await configuration())
        } catch let error as UbiquityError {
            let bytes = ByteBuffer(bytes: try ControlCodec.encode(ControlFailure(error)))
            return Response(
                status: .forbidden, headers: [.contentType: "application/json"], body: ResponseBody(byteBuffer: bytes))
        }
        return try await next(request, context)
    }

    /// Throws `.accessDenied` if the configuration has a list for the app that lacks the container.
    static func require(_ app: String, _ container: ContainerID, _ configuration: UserConfiguration) throws {
        guard let allowed = configuration.containers(ofApp: app), !allowed.contains(container) else { return }
        throw UbiquityError(
            .accessDenied, "the app \"\(app)\" may not use the container \"\(container)\"",
            remedy: "add 'app.\(app) = \(container)' to the configuration")
    }
}
