import FoundationEssentials
import UbiquityControl
import UbiquityCore
import UbiquitySystem

/// This program's connections to the mounts it coordinates with, and its presenters there.
actor CoordinationHub {
    static let shared = CoordinationHub()

    /// Claims granted together. The items may lie in several mounts.
    final class HeldClaim: Sendable {
        let places: [URL]
        private let claims: [(client: CoordinationClient, claim: UInt64)]
        private let isHeld = Lock(true)

        fileprivate init(places: [URL], claims: [(client: CoordinationClient, claim: UInt64)]) {
            self.places = places
            self.claims = claims
        }

        /// Downloads the missing content of the files to be read. Programs that open files without waiting, as
        /// Foundation does, then find the whole content.
        func download(for intents: [FileAccessIntent]) async throws {
            for (place, intent) in zip(places, intents) where intent.readsContent {
                let path = place.systemPath
                guard try await FileAccess.run({ try DownloadState.isMissing(path) }) else { continue }
                try await DownloadState.download(path)
            }
        }

        /// Gives the claims back. A second call does nothing.
        func end() async {
            guard isHeld.withLock({ isHeld in defer { isHeld = false }; return isHeld }) else { return }
            await CoordinationHub.end(claims)
        }
    }

    /// A mount as a program sees it.
    private struct Mount: Hashable {
        var stateFolder: String
        var mountPoint: String
    }

    private final class Registration: Sendable {
        let presenter: any FilePresenter
        let mount: Mount
        let connection: Int
        let client: CoordinationClient
        let number: UInt64
        let desk: PresenterDesk

        init(
            _ presenter: any FilePresenter, _ mount: Mount, _ connection: Int, _ client: CoordinationClient,
            _ number: UInt64, _ desk: PresenterDesk
        ) {
            self.presenter = presenter
            self.mount = mount
            self.connection = connection
            self.client = client
            self.number = number
            self.desk = desk
        }

        /// Whether this is the presenter's registration, or that of the document its item belongs to.
        func isOf(_ presenter: any FilePresenter) -> Bool {
            self.presenter === presenter || (self.presenter as? PrimaryFollower)?.presenter === presenter
        }
    }

    /// Connections that are open or being opened, by state folder.
    private var clients = ConnectionTable<Task<CoordinationClient, any Error>>()
    private var registrations: [Registration] = []
    /// Messages for a new presenter that arrived before the answer to its registration.
    private var early: [UInt64: PresenterQueue] = [:]
    private var additions = 0
    /// Counts the overflows: each time, the daemon left messages out.
    private var losses = 0

    var presenters: [any FilePresenter] { registrations.map(\.presenter).filter { !($0 is PrimaryFollower) } }

    // MARK: Claims

    /// Claims mounts in one fixed order, so two operations on the same mounts cannot deadlock.
    func claim(
        _ intents: [FileAccessIntent], purpose: String, presenter: (any FilePresenter)?
    ) async throws -> HeldClaim {
        var places = intents.map(\.url)
        var perMount: [Mount: [(index: Int, item: ClaimItem)]] = [:]
        for (index, intent) in intents.enumerated() {
            guard let (mount, path) = try Self.locate(intent.url) else { continue }
            let item = ClaimItem(path: path, use: intent.use, options: intent.options)
            perMount[mount, default: []].append((index, item))
        }
        var claims = [(client: CoordinationClient, claim: UInt64)]()
        do {
            for (mount, items) in perMount.sorted(by: { $0.key.stateFolder < $1.key.stateFolder }) {
                let client = try await client(of: mount).client
                let own = registrations.first { $0.presenter === presenter && $0.mount == mount }?.number
                let granted = try await client.claim(items.map(\.item), presenter: own, purpose: purpose)
                claims.append((client, granted.claim))
                for (item, path) in zip(items, granted.paths) where !path.isSamePath(as: item.item.path) {
                    places[item.index] = Self.url(path, in: mount)
                }
            }
        } catch {
            await Self.end(claims)
            throw error
        }
        return HeldClaim(places: places, claims: claims)
    }

    private static func end(_ claims: [(client: CoordinationClient, claim: UInt64)]) async {
        await evenIfCancelled {
            // If the daemon has ended, it holds no claims.
            for held in claims { try? await held.client.end(held.claim) }
        }
    }

    /// Runs `body` in a task of its own, because a cancelled task sends nothing and claims must be given back anyway. A
    /// cancelled caller does not wait for it.
    private static func evenIfCancelled(_ body: @escaping @Sendable () async -> Void) async {
        let task = Task(operation: body)
        if !Task.isCancelled { await task.value }
    }

    // MARK: Presenters

    /// Registers a presenter and, if its item belongs to a document, a follower of that document.
    func add(_ presenter: any FilePresenter) async throws {
        try await register(presenter, abilities: PresenterDesk.abilities)
        guard let primary = await presenter.primaryPresentedItemURL else { return }
        do { try await register(PrimaryFollower(primary, of: presenter), abilities: []) } catch {
            await remove(presenter)
            throw error
        }
    }

    private func register(_ presenter: any FilePresenter, abilities: [String]) async throws {
        let url = await presenter.presentedItemURL
        guard let (mount, path) = try Self.locate(url) else {
            throw UbiquityError(.notFound, "not in a mounted container", at: url.path)
        }
        let (connection, client) = try await client(of: mount)
        additions += 1
        defer {
            additions -= 1
            if additions == 0 { early = [:] }
        }
        let before = losses
        let observed = await ObservedAttributes(presenter.observedPresentedItemUbiquityAttributes, of: url)
        let number = try await Self.present(path, abilities, at: client)
        guard clients.isCurrent(connection, of: mount.stateFolder) else {
            // If the daemon still runs, it skips a presenter that does not answer.
            try? await client.stopPresenting(number)
            // The connection ended while the answer was on its way. No later event would report that.
            throw UbiquityError(.stale, "the mount has ended", at: path)
        }
        let desk = PresenterDesk(
            presenter, number: number, observed: observed,
            // If an answer does not reach the daemon, the daemon treats it as late.
            answer: { try? await client.answer($0, refusal: $1) }, place: { Self.url($0, in: mount) })
        registrations.append(Registration(presenter, mount, connection, client, number, desk))
        var missed = early.removeValue(forKey: number) ?? PresenterQueue()
        while let news = missed.next() { desk.take(news) }
        if losses != before { desk.take(ClientNews(.overflow)) }
    }

    /// Waits for the registration even if the task is cancelled. Without the presenter's number nobody could remove it.
    private static func present(
        _ path: String, _ abilities: [String], at client: CoordinationClient
    ) async throws -> UInt64 {
        let number = try await Task { try await client.present(path, abilities: abilities) }.value
        guard Task.isCancelled else { return number }
        await evenIfCancelled { try? await client.stopPresenting(number) }
        throw CancellationError()
    }

    func remove(_ presenter: any FilePresenter) async {
        let gone = registrations.filter { $0.isOf(presenter) }
        for registration in gone {
            registration.desk.close()
            // If the daemon has ended, it no longer knows the presenter.
            await Self.evenIfCancelled { try? await registration.client.stopPresenting(registration.number) }
        }
        registrations.removeAll { $0.isOf(presenter) }
    }

    // MARK: Moves

    /// Reports a move to the mount that the item leaves. A move within a mount is a rename, and the mount sees it.
    ///
    /// - Parameter isDone: False before the move, while the item is still in its old place.
    func announceMove(of url: URL, to destination: URL, isDone: Bool) async throws {
        guard let (mount, path) = try Self.locate(url) else { return }
        if let (other, _) = try Self.locate(destination), other == mount { return }
        let client = try await client(of: mount).client
        let place = String(decoding: try MountFinder.absolute(destination.path), as: UTF8.self)
        try await client.announceMove(of: path, to: isDone ? place : nil)
    }

    // MARK: Connections

    private func client(of mount: Mount) async throws -> (connection: Int, client: CoordinationClient) {
        if let known = clients[mount.stateFolder] { return (known.number, try await known.value.value) }
        let number = clients.newNumber()
        let opening = Task {
            try await CoordinationClient.open(
                stateFolder: mount.stateFolder, name: ProcessHost.programName,
                ended: { Task { await self.ended(number, of: mount.stateFolder) } },
                each: { await self.pass($0, of: number) })
        }
        clients.note(opening, number, of: mount.stateFolder)
        do { return (number, try await opening.value) } catch {
            _ = clients.remove(number, of: mount.stateFolder)
            throw error
        }
    }

    private func ended(_ connection: Int, of stateFolder: String) async {
        let client = clients.remove(connection, of: stateFolder)
        let gone = registrations.filter { $0.connection == connection }
        registrations.removeAll { $0.connection == connection }
        for registration in gone {
            registration.desk.close()
            await registration.presenter.presentationDidEnd()
        }
        // A connection that failed to open is closed already.
        if let client = try? await client?.value { await client.close() }
    }

    private func pass(_ news: ClientNews, of connection: Int) {
        if news.kind == .overflow {
            losses += 1
            for known in registrations where known.connection == connection { known.desk.take(news) }
        }
        let numbers = Set([news.presenter].compactMap { $0 } + (news.presenters ?? []) + (news.folderPresenters ?? []))
        for number in numbers.sorted() {
            if let known = registrations.first(where: { $0.connection == connection && $0.number == number }) {
                known.desk.take(news)
            } else if additions > 0 {
                early[number, default: PresenterQueue()].add(news)
            }
        }
    }

    // MARK: Places

    /// Returns the mount that contains a URL, and the path in it; nil outside of all mounts.
    private static func locate(_ url: URL) throws -> (Mount, String)? {
        let absolute = try MountFinder.absolute(url.path)
        guard let found = try MountFinder.resolver(MountFinder.table()).locate(absolute) else { return nil }
        let mount = Mount(
            stateFolder: String(decoding: found.stateFolder, as: UTF8.self),
            mountPoint: String(decoding: found.mountPoint, as: UTF8.self))
        return (mount, String(decoding: found.relativePath, as: UTF8.self))
    }

    /// The URL of a path in a mount. An item that has left the mount has an absolute path.
    private static func url(_ path: String, in mount: Mount) -> URL {
        if path.hasPrefix("/") { return URL(filePath: path) }
        return URL(filePath: path.isEmpty ? mount.mountPoint : "\(mount.mountPoint)/\(path)")
    }
}
