package import UbiquityCoordination
internal import UbiquityCore
package import UbiquityIndex

extension ItemRow {
    /// The target of a claim on the item.
    package var claimTarget: ClaimTarget {
        ClaimTarget(
            item: key, entry: entry.map { ClaimTarget.Entry(parent: $0.parent, name: $0.name) },
            isFolder: kind == .directory)
    }
}

extension Optional<Coordination> {
    /// Runs `body` and attributes its changes to `doer` in notifications to presenters.
    func attributing<Result>(to doer: Doer?, _ body: () throws -> Result) rethrows -> Result {
        guard let doer, self?.hasPresenters == true else { return try body() }
        return try Doer.$current.withValue(doer, operation: body)
    }
}
