package import UbiquityCore

// Programs that know nothing of coordination.
extension Arbiter {
    /// What becomes of a plain access.
    package enum ProgramAccess: Sendable {
        /// Nobody minds. To be ended with the item's key.
        case granted(ClaimID)
        /// Somebody is concerned: the request's actions say what becomes of it.
        case requested(ClaimID, [ArbiterAction])
    }

    /// A plain open, or a change of a name or of attributes, by a program.
    package mutating func access(
        _ targets: [ClaimIntent], by process: Int32, waitingTime: Duration, mayWait: Bool, now: Duration,
        in surroundings: some Surroundings
    ) -> ProgramAccess {
        let isOfConcern = isStrict || targets.contains { isConcerning($0, surroundings) }
        // A change of names is over in a moment; one who claims meanwhile comes after it.
        if !isOfConcern {
            return .granted(targets.count == 1 ? hold(targets[0], by: process) : ClaimID(nextNumber()))
        }
        let request = ClaimRequest(
            owner: .program(process), intents: targets, waitingTime: waitingTime, mayWait: mayWait)
        let (id, actions) = self.request(request, now: now, in: surroundings)
        return .requested(id, actions)
    }

    /// Notes what a program has without having asked: it has just made it.
    package mutating func hold(_ intent: ClaimIntent, by process: Int32) -> ClaimID {
        let id = ClaimID(nextNumber())
        if let item = intent.target.item {
            programs[item, default: []].append(
                ProgramHold(id: id, process: process, access: intent.access, entry: intent.target.entry))
        }
        return id
    }

    /// Ends a plain access. `item` is that of its first target.
    package mutating func endAccess(
        _ id: ClaimID, to item: ItemKey?, now: Duration, in surroundings: some Surroundings
    ) -> [ArbiterAction] {
        guard let item, let place = programs.index(forKey: item),
            let position = programs.values[place].lastIndex(where: { $0.id == id })
        else { return end(id, now: now, in: surroundings) }
        programs.values[place].remove(at: position)
        if programs.values[place].isEmpty { programs.remove(at: place) }
        guard !waiting.isEmpty else { return [] }
        var actions = [ArbiterAction]()
        advance(waiting, now, surroundings, &actions)
        return actions
    }

    /// Whether a claim or a presenter may have to do with it. Costs no look at the tree unless folders are claimed or
    /// presented.
    private func isConcerning(_ intent: ClaimIntent, _ surroundings: some Surroundings) -> Bool {
        if clients.isEmpty { return false }
        if intent.target.isFolder, intent.access.takesAway { return true }
        let own = intent.target.ownUnit
        if requestsByUnit[own] != nil || presentersByUnit[own] != nil { return true }
        if nameClaims > 0, let entry = intent.target.entry,
            requestsByUnit[.name(parent: entry.parent, entry.name)] != nil
        {
            return true
        }
        guard folderUnits > 0, let parent = intent.target.entry?.parent else { return false }
        let ancestry = surroundings.ancestry(of: parent)
        if let package = ancestry.package, requestsByUnit[.item(package)] ?? [] != [] { return true }
        if let package = ancestry.package, presentersByUnit[.item(package)] != nil { return true }
        if !reachingDown.isEmpty, ancestry.folders.contains(where: { reachingDown[$0] != nil }) { return true }
        return intent.access.takesAway && ancestry.folders.contains { folderPresenters[$0] != nil }
    }
}
