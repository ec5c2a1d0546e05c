package import UbiquityCore

// Programs that do not coordinate.
extension Arbiter {
    /// The result of a plain access.
    package enum ProgramAccess: Sendable {
        /// No client is affected. End the access with the item's key.
        case granted(ClaimID)
        /// A client is affected: the request's actions tell how it continues.
        case requested(ClaimID, [ArbiterAction])
    }

    /// Requests access for a plain open, or for a change of a name or of attributes, by a program.
    package mutating func access(
        _ targets: [ClaimIntent], by process: Int32, waitingTime: Duration, mayWait: Bool, now: Duration,
        in surroundings: some Surroundings
    ) -> ProgramAccess {
        let isOfConcern = isStrict || targets.contains { isConcerning($0, surroundings) }
        // A change of names is short, so a later claim simply follows it.
        if !isOfConcern {
            return .granted(targets.count == 1 ? hold(targets[0], by: process) : ClaimID(nextNumber()))
        }
        let request = ClaimRequest(
            owner: .program(process), intents: targets, waitingTime: waitingTime, mayWait: mayWait)
        let (id, actions) = self.request(request, now: now, in: surroundings)
        return .requested(id, actions)
    }

    /// Records an access that a program has without a request, because it has just created the item.
    package mutating func hold(_ intent: ClaimIntent, by process: Int32) -> ClaimID {
        let id = ClaimID(nextNumber())
        if let item = intent.target.item {
            programs[item, default: []].append(
                ProgramHold(id: id, process: process, access: intent.access, entry: intent.target.entry))
        }
        return id
    }

    /// Ends a plain access. `item` is the item of its first target.
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

    /// Returns whether a claim or a presenter may be affected. It examines the tree only if folders are claimed or
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
