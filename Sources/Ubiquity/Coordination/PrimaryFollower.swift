import FoundationEssentials

/// Follows the document that a presented item belongs to, and reports its moves to the item's presenter.
final class PrimaryFollower: FilePresenter {
    let presentedItemURL: URL
    let presenter: any FilePresenter

    init(_ primary: URL, of presenter: any FilePresenter) {
        presentedItemURL = primary
        self.presenter = presenter
    }

    var observedPresentedItemUbiquityAttributes: Set<UbiquitousItem.Key> { [] }

    func presentedItemDidMove(to url: URL) async { await presenter.primaryPresentedItemDidMove(to: url) }
}
