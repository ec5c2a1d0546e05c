import Hummingbird
internal import Logging
internal import UbiquityCore
internal import UbiquityWire

/// Turns every error of a route into an answer with a reason, and refuses requests while the server ends.
struct Failures: RouterMiddleware {
    typealias Context = CloudContext

    let activity: Activity
    let counters: Counters

    func handle(
        _ request: Request, context: CloudContext, next: (Request, CloudContext) async throws -> Response
    ) async throws -> Response {
        do {
            guard !activity.isStopping else { throw UbiquityError(.offline, "the cloud is ending") }
            return try await next(request, context)
        } catch {
            counters.countFailure()
            return Self.response(to: request, for: error, logger: context.logger)
        }
    }

    static func response(to request: Request, for error: any Error, logger: Logger) -> Response {
        let (status, failure) = describe(error, request: request)
        log(error, status: status, of: request, logger: logger)
        let format = request.answerFormat
        // Encoding fails only for unknown fields, which a failure never has; then the status alone answers.
        let body = (try? WireCodec.encode(failure, as: format)) ?? []
        var response = Response(status: .init(code: status), mediaType: format.mediaType, bytes: body)
        if status == 401 { response.headers[.wwwAuthenticate] = "Bearer" }
        if error is DamagedRequest { response.headers.set(MessageDigest.refusalField, MessageDigest.refusal) }
        if let slowed = error as? SlowedSignIn {
            response.headers[.retryAfter] = "\(slowed.seconds)"
        } else if status == 429 || error is Overloaded { response.headers[.retryAfter] = "1" }
        return response
    }

    /// The status and the failure as the client sees them.
    static func describe(_ error: any Error, request: Request) -> (status: Int, failure: WireFailure) {
        switch error {
        case let damaged as DamagedRequest: return (503, WireFailure(error: damaged.failure))
        case let error as Overloaded:
            return (503, WireFailure(error: UbiquityError(.tooManyRequests, error.reason)))
        case let error as SlowedSignIn: return (429, WireFailure(error: error.error))
        case let error as RefusedRange:
            return (416, WireFailure(error: UbiquityError(.invalid, error.reason)))
        case let error as any HTTPResponseError:
            let status = error.status.code
            let reason = status == 404
                ? "the cloud has no \(request.method) \(request.uri.path.prefix(200))" : error.status.reasonPhrase
            return (status, WireFailure(error: UbiquityError(UbiquityError.Code(httpStatus: status), reason)))
        default:
            let failure = told(error)
            return (failure.status, failure)
        }
    }

    /// The failure as the client sees it. A place on the cloud's disk stays in the cloud's log.
    static func told(_ error: any Error) -> WireFailure {
        let failure = WireFailure(error)
        guard failure.status >= 500 else { return failure }
        let error = failure.error
        return WireFailure(error: UbiquityError(error.code, error.message, remedy: error.remedy))
    }

    /// Logs a failure: the cloud's own failures as errors, refusals at debug level.
    static func log(_ error: any Error, status: Int, of request: Request, logger: Logger) {
        let isOurs = status >= 500 && status != 503
        logger.log(level: isOurs ? .error : .debug, "request failed", metadata: [
            "request": "\(request.method) \(request.uri.path)", "status": "\(status)", "error": "\(error)",
        ])
    }
}
