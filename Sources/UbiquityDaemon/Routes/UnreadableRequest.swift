import Hummingbird
import NIOCore
import UbiquityControl
import UbiquityCore

/// A request whose body is not the message of the route. The answer is 400, or 413 for a body that is too long.
struct UnreadableRequest: Error {
    var cause: UbiquityError

    var status: HTTPResponse.Status { cause.code == .tooLarge ? .contentTooLarge : .badRequest }
}

/// Answers requests for unknown paths and methods in the same form as all other failures.
struct UnknownRoutes: RouterMiddleware {
    typealias Context = BasicRequestContext

    func handle(
        _ request: Request, context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as HTTPError {
            let path = "\(request.method) \(request.uri.path)"
            let failure = UbiquityError(.notFound, "no such route", at: path, remedy: "see openapi.json")
            let bytes = ByteBuffer(bytes: try ControlCodec.encode(ControlFailure(failure)))
            return Response(
                status: error.status, headers: [.contentType: "application/json"],
                body: ResponseBody(byteBuffer: bytes))
        }
    }
}
