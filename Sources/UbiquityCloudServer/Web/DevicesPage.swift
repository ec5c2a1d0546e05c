import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The devices and the tokens of an account.
struct DevicesPage: Sendable {
    let rooms: WebRooms

    func add(to router: Router<CloudContext>) {
        router.get("devices", use: rooms.page(devices))
        router.post("devices/remove", use: rooms.action(remove))
        router.post("tokens", use: rooms.action(create))
        router.post("tokens/revoke", use: rooms.action(revoke))
    }

    @Sendable private func devices(_ request: Request, _ context: CloudContext, _ visitor: Visitor) async throws
        -> Response
    {
        try visitor.holder.rights.requireAll(to: "list devices")
        return WebAnswer.page(try await page(request, visitor, created: nil))
    }

    private func page(_ request: Request, _ visitor: Visitor, created: NewToken?) async throws -> HTML {
        let frame = try await rooms.frame(request, visitor), cloud = try rooms.access.cloud()
        // At the socket the account may not exist before its first request.
        let devices = try await cloud.devices.list(of: visitor.account)
        let tokens = try await cloud.tokens.list(of: visitor.account)
        let field = visitor.formField
        let deviceRows = devices.map { device in
            HTML.row(
                "\(device.name.isEmpty ? "unnamed device" : device.name)", .time(device.lastContact),
                "\(device.tokens.joined(separator: ", "))",
                """
                <form method="post" action="\(visitor.paths.account("/devices/remove"))" data-confirm="Remove \
                \(device.name)? Its tokens are revoked, and it is signed out.">\(field)\
                <input type="hidden" name="device" value="\(device.id)"><button class="danger">Remove\
                <span class="hidden"> \(device.name)</span></button></form>
                """)
        }
        let tokenRows = tokens.map { token in
            HTML.row(
                "\(token.name)", "\(token.containers?.joined(separator: ", ") ?? "all containers")",
                "\(token.readOnly ? "read only" : "read and write")",
                token.lastUsed.map { .time($0) } ?? "never",
                """
                <form method="post" action="\(visitor.paths.account("/tokens/revoke"))" data-confirm="Revoke \
                \(token.name)? Programs and browsers that use it are signed out.">\(field)\
                <input type="hidden" name="token" value="\(token.name)"><button class="danger">Revoke\
                <span class="hidden"> \(token.name)</span></button></form>
                """)
        }
        let deviceTable: HTML = deviceRows.isEmpty
            ? "<p class=\"soft\">No device has connected yet.</p>"
            : .table("Devices", ["Device", "Last contact", "Tokens", "Actions"], deviceRows)
        let secret: HTML? = created.map { new in
            """
            <section class="card" role="alert"><h2>The token “\(new.name)”</h2>
            <p>Copy it now. The cloud does not show it again.</p><p class="secret">\(new.token)</p>
            <button type="button" data-copy="\(new.token)">Copy</button></section>
            """
        }
        let content: HTML = """
            <h1>Devices and tokens</h1>\(secret)
            <section class="card"><h2>Devices</h2>\(deviceTable)</section>
            <section class="card"><h2>Tokens</h2>
            \(HTML.table("Tokens", ["Name", "Opens", "May", "Last used", "Actions"], tokenRows))
            \(newToken(visitor, frame.summary.containers))</section>
            """
        return frame.page("Devices", .devices, content)
    }

    private func newToken(_ visitor: Visitor, _ containers: [ContainerID]) -> HTML {
        let choices: [HTML] = containers.map { container in
            """
            <label class="choice"><input type="checkbox" name="container" value="\(container.name)">\(container.name)\
            </label>
            """
        }
        return """
            <details><summary class="button">\(Icon.add.html)New token</summary>
            <form method="post" action="\(visitor.paths.account("/tokens"))">\(visitor.formField)
            <label class="field">Name<input name="name" maxlength="64" autocomplete="off" required>
            <small>Of the device or the app that will use it</small></label>
            <fieldset><legend>Containers (none chosen: all)</legend>\(choices)</fieldset>
            <label class="choice"><input type="checkbox" name="read-only" value="1">Read only</label>
            <button class="primary">Create the token</button></form></details>
            """
    }

    // MARK: Actions

    @Sendable private func create(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        try visitor.holder.rights.requireAll(to: "create tokens")
        let containers = form.all("container")
        let token = try await rooms.access.cloud().tokens.create(
            of: visitor.account,
            TokenRequest(
                name: form["name"], containers: containers.isEmpty ? nil : containers,
                readOnly: form["read-only"] != nil))
        // Shown at once and never again, so there is no page to go on to.
        return WebAnswer.page(try await page(request, visitor, created: token), status: .created)
    }

    @Sendable private func revoke(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        try visitor.holder.rights.requireAll(to: "revoke tokens")
        try await rooms.access.cloud().tokens.revoke(form.required("token"), of: visitor.account)
        return WebAnswer.seeOther(visitor.paths.account("/devices", Notice(.revoked).query))
    }

    @Sendable private func remove(
        _ request: Request, _ context: CloudContext, _ visitor: Visitor, _ form: WebForm
    ) async throws -> Response {
        try visitor.holder.rights.requireAll(to: "remove devices")
        _ = try await rooms.access.cloud().devices.remove(form.required("device"), of: visitor.account)
        return WebAnswer.seeOther(visitor.paths.account("/devices", Notice(.removed).query))
    }
}
