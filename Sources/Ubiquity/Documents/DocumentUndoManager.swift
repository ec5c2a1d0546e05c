/// Undoes and redoes a document's changes, and reports each of them to the document.
///
/// Register the reverse of a change when you make the change. An action that runs registers its own reverse in the same
/// way, which makes it the redo.
///
/// - Source: `UndoManager`, which Foundation on Linux lacks.
@MainActor
public final class DocumentUndoManager {
    private struct Action {
        var name: String
        var undo: @MainActor () -> Void
    }

    private enum Phase { case normal, undoing, redoing }

    /// Changes that can be undone at most; older ones are forgotten. Zero for no limit.
    public var levelsOfUndo = 0 { didSet { trim() } }
    private var undoActions: [Action] = []
    private var redoActions: [Action] = []
    private var phase = Phase.normal
    var report: (@MainActor (Document.ChangeKind) -> Void)?

    /// Makes a manager without actions.
    public init() {}

    /// Whether there is a change to undo.
    public var canUndo: Bool { !undoActions.isEmpty }
    /// Whether there is an undone change to redo.
    public var canRedo: Bool { !redoActions.isEmpty }
    /// The name of the change that `undo` would undo; empty if there is none.
    public var undoActionName: String { undoActions.last?.name ?? "" }
    /// The name of the change that `redo` would redo; empty if there is none.
    public var redoActionName: String { redoActions.last?.name ?? "" }

    /// Registers the reverse of a change. A new change ends the possibility to redo.
    ///
    /// - Parameter name: The name of the change for menus, such as "Typing".
    /// - Parameter undo: Reverses the change, and registers its own reverse.
    public func registerUndo(_ name: String = "", _ undo: @escaping @MainActor () -> Void) {
        let action = Action(name: name, undo: undo)
        switch phase {
        case .undoing: redoActions.append(action)
        case .redoing: undoActions.append(action)
        case .normal:
            undoActions.append(action)
            redoActions = []
            trim()
            report?(.done)
        }
    }

    /// Undoes the last change. Does nothing if there is none.
    public func undo() {
        guard phase == .normal, let action = undoActions.popLast() else { return }
        run(action, .undoing, .undone)
    }

    /// Redoes the last undone change. Does nothing if there is none.
    public func redo() {
        guard phase == .normal, let action = redoActions.popLast() else { return }
        run(action, .redoing, .redone)
    }

    /// Forgets all actions, for example because the document's content was read anew.
    public func removeAllActions() { (undoActions, redoActions) = ([], []) }

    private func run(_ action: Action, _ phase: Phase, _ kind: Document.ChangeKind) {
        self.phase = phase
        action.undo()
        self.phase = .normal
        trim()
        report?(kind)
    }

    private func trim() {
        guard levelsOfUndo > 0, undoActions.count > levelsOfUndo else { return }
        undoActions.removeFirst(undoActions.count - levelsOfUndo)
    }
}
