import Hummingbird

/// The web page: for people, in a browser.
///
/// Every page is HTML from this server and works without a script. `WebRooms` finds the visitor and shows failures;
/// `PageFrame` has the heading and the navigation. Changes go through `ContainerWriter`, which commits them as a device
/// does. Contents of files are served by `ContentRoutes`, so that no browser runs them as a part of this site.
struct WebRoutes: Sendable {
    let access: CloudAccess
    let sessions: WebSessions
    let events: EventRoutes

    func add(to router: Router<CloudContext>) {
        let rooms = WebRooms(access: access, reception: Reception(access: access, sessions: sessions))
        WebAssets().add(to: router)
        SignInPage(reception: rooms.reception).add(to: router)
        HomePage(rooms: rooms).add(to: router)
        FolderPage(rooms: rooms).add(to: router)
        ItemPage(rooms: rooms).add(to: router)
        ConflictPage(rooms: rooms).add(to: router)
        TrashPage(rooms: rooms).add(to: router)
        LinksPage(rooms: rooms).add(to: router)
        DevicesPage(rooms: rooms).add(to: router)
        StoragePage(rooms: rooms).add(to: router)
        UploadRoutes(rooms: rooms).add(to: router)
        ContentRoutes(rooms: rooms, departures: events.departures).add(to: router)
        router.get("containers/:container/events") { request, context in
            await rooms.answering(request, context) {
                let visitor = try await rooms.reception.visitor(request, context)
                let container = try rooms.container(context, visitor)
                let service = try await access.host.service(visitor.holder, container)
                return try await events.stream(of: service, for: visitor.holder, context)
            }
        }
    }
}
