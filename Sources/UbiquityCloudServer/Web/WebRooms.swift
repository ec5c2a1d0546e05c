import Hummingbird
internal import Logging
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquitySystem
internal import UbiquityWire

/// Shared by all pages: the access to the cloud, and the handling of requests and failures.
struct WebRooms: Sendable {
    let access: CloudAccess
    let reception: Reception

    typealias Page = @Sendable (Request, CloudContext, Visitor) async throws -> Response
    typealias Action = @Sendable (Request, CloudContext, Visitor, WebForm) async throws -> Response

    /// A handler that shows a page.
    func page(_ make: @escaping Page) -> @Sendable (Request, CloudContext) async throws -> Response {
        { request, context in
            await self.answering(request, context) {
                try await make(request, context, reception.visitor(request, context))
            }
        }
    }

    /// A handler of a form, which must come from a page of the visitor.
    func action(_ run: @escaping Action) -> @Sendable (Request, CloudContext) async throws -> Response {
        { request, context in
            await self.answering(request, context) {
                let visitor = try await reception.visitor(request, context)
                let form = try await request.webForm()
                if visitor.formToken != nil { try request.requireOwnOrigin() }
                try visitor.requireOwnForm(form[Visitor.fieldName])
                return try await run(request, context, visitor, form)
            }
        }
    }

    /// Shows a failure as a page; a missing session as the page for signing in.
    func answering(
        _ request: Request, _ context: CloudContext, _ body: () async throws -> Response
    ) async -> Response {
        do {
            return try await body()
        } catch {
            let (status, failure) = Failures.describe(error, request: request)
            Failures.log(error, status: status, of: request, logger: context.logger)
            var response = WebAnswer.page(Self.failurePage(failure, status, request), status: .init(code: status))
            if status == 401 { response.headers[.wwwAuthenticate] = "Bearer" }
            if let slowed = error as? SlowedSignIn { response.headers[.retryAfter] = "\(slowed.seconds)" }
            return response
        }
    }

    private static func failurePage(_ failure: WireFailure, _ status: Int, _ request: Request) -> HTML {
        let error = failure.error
        guard status != 401 else {
            // The browser sends no strict cookie when another site leads here. From a page of this site it does.
            if request.method == .get, request.header("sec-fetch-site") == "cross-site",
                request.header("sec-fetch-mode") == "navigate"
            {
                return reloading(request.uri.string)
            }
            let isFirst = request.header("cookie") == nil && request.header("authorization") == nil
            return SignInPage.page(
                next: request.method == .get ? request.uri.string : nil, account: "", reason: isFirst ? nil : error)
        }
        return PageFrame.bare(
            "Not done",
            """
            <section class="card" role="alert"><h1>That did not work</h1>
            <p data-reason>\(capitalized(error.message))\(error.place.isEmpty ? "" : ": \(error.place)")</p>
            \(error.remedy.isEmpty ? .empty : "<p class=\"soft\">To mend it: \(error.remedy).</p>" as HTML)
            <p><a class="button" href="/">Back to the start</a></p></section>
            """)
    }

    private static func reloading(_ path: String) -> HTML {
        let target = WebPaths.isLocal(path) ? path : "/"
        return """
            <!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=\(target)">
            <title>ubiquity</title><p><a href="\(target)">Continue</a></p></html>
            """
    }

    private static func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

    // MARK: Parts of requests

    /// Frames the pages of an account.
    func frame(_ request: Request, _ visitor: Visitor, _ container: ContainerID? = nil) async throws -> PageFrame {
        var summary = try await access.cloud().summary(of: visitor.account)
        if let allowed = visitor.holder.rights.containers { summary.containers.removeAll { !allowed.contains($0) } }
        return PageFrame(
            visitor: visitor, summary: summary, container: container, notice: Notice(try request.webQuery()))
    }

    /// The container in the address, which the visitor may use.
    func container(_ context: CloudContext, _ visitor: Visitor, isWriting: Bool = false) throws -> ContainerID {
        guard let name = context.parameters.get("container"), let container = ContainerID(name) else {
            throw UbiquityError(.invalidName, "a container's name is \(ContainerID.rules)")
        }
        try visitor.holder.rights.require(container, isWriting: isWriting)
        return container
    }

    func browser(_ visitor: Visitor, _ container: ContainerID) async throws -> any ContainerBrowser {
        try await access.host.browser(visitor.account, container)
    }

    func writer(_ context: CloudContext, _ visitor: Visitor) async throws -> ContainerWriter {
        let container = try container(context, visitor, isWriting: true)
        return ContainerWriter(
            service: try await access.host.service(visitor.holder, container),
            browser: try await browser(visitor, container), container: container, device: visitor.device,
            random: SystemRandom(), timekeeper: SystemTimekeeper())
    }

    /// The item in the address.
    static func item(_ context: CloudContext) throws -> ItemID { try item(context.parameters.get("item")) }

    static func item(_ text: String?) throws -> ItemID {
        guard let item = text.flatMap({ ItemID(hex: $0) }) else {
            throw UbiquityError(.invalid, "an item's id is 32 hexadecimal digits")
        }
        return item
    }

    static func version(_ text: String?) throws -> VersionID {
        guard let version = text.flatMap({ VersionID(hex: $0) }) else {
            throw UbiquityError(.invalid, "a version's id is 32 hexadecimal digits")
        }
        return version
    }
}
