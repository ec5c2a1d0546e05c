import UbiquityControl
import UbiquityCoordination
import UbiquityCore

/// The clients of coordination with their claims, for `status`.
struct CoordinationReport: MountCommand {
    /// Largest number of claims reported: a screenful or two.
    private static let maximumClaims = 100

    let parts: MountParts

    /// Reads the index.
    func status() throws -> CoordinationStatus {
        let snapshot = coordination.snapshot(limit: Self.maximumClaims)
        let names = Dictionary(snapshot.clients.map { ($0.id, $0.description.name) }) { first, _ in first }
        let owners = Dictionary(snapshot.claims.map { ($0.id, owner($0.owner, names)) }) { first, _ in first }
        return CoordinationStatus(
            clients: snapshot.clients.map { client in
                CoordinationStatus.Client(
                    client: client.id.number, name: client.description.name, process: client.description.process,
                    presenters: client.presenters, isUnresponsive: client.isUnresponsive)
            },
            claims: try snapshot.claims.map { entry in
                let awaited = entry.awaitedClients.map { "\(names[$0] ?? "a client")'s answer" }
                return CoordinationStatus.Claim(
                    claim: entry.id.number, owner: owner(entry.owner, names), state: entry.state.rawValue,
                    items: try entry.units.map(text), age: entry.age / .seconds(1),
                    waitsFor: awaited + entry.awaitedClaims.map { owners[$0] ?? "a program that has it open" })
            },
            plainOpens: snapshot.plainOpens, isStrict: parts.settings.isStrict)
    }

    private func owner(_ owner: ClaimOwner, _ names: [ClientID: String]) -> String {
        switch owner {
        case .client(let client): names[client] ?? "a client"
        case .program(let process): "process \(process)"
        case .system: "ubiquity"
        }
    }

    private func text(_ unit: ArbiterSnapshot.Unit) throws -> String {
        let path: String
        switch unit.unit {
        case .item(let item): path = try parts.tree.path(of: item) ?? "(gone)"
        case .name(let parent, let name): path = "\(try parts.tree.path(of: parent) ?? "(gone)")/\(name)"
        }
        switch unit.access {
        case .reading: return "read \(path)"
        case .writing(let option): return "write \(option.map { "\($0.rawValue) " } ?? "")\(path)"
        case .evicting: return "evict \(path)"
        }
    }
}
