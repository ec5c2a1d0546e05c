import Hummingbird
internal import NIOCore
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// Sign-ins by code. A device needs no token to ask for a code and to collect its token. The decision needs a token
/// with all rights; the cloud's owner decides about the codes of all accounts.
struct SignInRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        router.get("v1/sign-ins", use: list)
        router.post("v1/sign-ins", use: request)
        router.post("v1/sign-ins/collect", use: collect)
        router.post("v1/sign-ins/approve", use: approve)
        router.post("v1/sign-ins/refuse", use: refuse)
    }

    @Sendable private func request(_ request: Request, _ context: CloudContext) async throws -> Response {
        let wanted: SignInRequest = try await request.json(like: "{\"account\": \"…\", \"device\": \"…\"}")
        let code = try access.cloud().signInCodes.request(wanted, from: context.channel.remoteAddress?.ipAddress)
        return try Response(json: code, status: .created)
    }

    @Sendable private func collect(_ request: Request, _ context: CloudContext) async throws -> Response {
        let question: SignInSecret = try await request.json(like: "{\"secret\": \"…\"}")
        return try Response(json: SignInAnswer(token: await access.cloud().signInCodes.collect(question.secret)))
    }

    @Sendable private func list(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.decidingAccount(request, context, to: "list sign-ins")
        return try Response(json: PendingSignInList(signIns: access.cloud().signInCodes.list(of: account)))
    }

    @Sendable private func approve(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.decidingAccount(request, context, to: "approve sign-ins")
        let decision: SignInDecision = try await request.json(like: "{\"code\": \"…\"}")
        return try Response(json: await access.cloud().signInCodes.approve(decision, of: account))
    }

    @Sendable private func refuse(_ request: Request, _ context: CloudContext) async throws -> Response {
        let account = try await access.decidingAccount(request, context, to: "refuse sign-ins")
        let decision: SignInDecision = try await request.json(like: "{\"code\": \"…\"}")
        return try Response(json: access.cloud().signInCodes.refuse(decision.code, of: account))
    }
}
