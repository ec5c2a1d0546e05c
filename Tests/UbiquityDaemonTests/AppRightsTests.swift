import Testing
import UbiquityCore
@testable import UbiquityDaemon

/// The containers of an app at the local socket. CI-02, CI-03, CI-04.
@Suite struct AppRightsTests {
    private let configuration = UserConfiguration(
        "app.notes = notes, default\napp.notes = shared\napp.photos = photos\napp.bad = a/b\n")

    private func isAllowed(_ app: String, _ container: String) throws -> Bool {
        let container = try #require(ContainerID(container))
        do { try AppRights.require(app, container, configuration) } catch let error as UbiquityError {
            #expect(error.code == .accessDenied)
            return false
        }
        return true
    }

    @Test func appUsesTheContainersOfItsListOnly() throws {
        let table: [(app: String, container: String, isAllowed: Bool)] = [
            ("notes", "notes", true), ("notes", "default", true), ("notes", "shared", true), ("notes", "photos", false),
            ("photos", "photos", true), ("photos", "notes", false), ("unlisted", "notes", true),
        ]
        for row in table { #expect(try isAllowed(row.app, row.container) == row.isAllowed, "\(row)") }
    }

    @Test func malformedListIsNamedAndRestrictsNothing() throws {
        #expect(configuration.complaints.count == 1)
        #expect(try isAllowed("bad", "notes"))
    }
}
