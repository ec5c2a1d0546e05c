import NIOHTTP1
import Testing
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore
import UbiquitySystem
import UbiquityWire

/// Sessions of browsers: their cookie, their limits and their end.
@Suite struct WebSignInTests {
    @Test func signInSetsAStrictCookieAndShowsTheAccount() async throws {
        try await PlainBrowser.run { browser, token, _, _ in
            let refused = try await browser.get("/devices")
            #expect(refused.status == 401 && refused.text.contains("name=\"token\""))
            #expect(!refused.text.contains("alice"))
            let page = try await browser.signIn(token)
            #expect(page.status == 303 && page.location == "/")
            let cookie = try #require(page.headers.first(name: "set-cookie"))
            #expect(cookie.hasPrefix("ubiquity=") && cookie.contains("; HttpOnly; SameSite=Strict"))
            #expect(!cookie.contains("Secure"))
            let home = try await browser.get("/")
            #expect(home.status == 200 && home.text.contains("Account alice"))
        }
    }

    @Test func cookieIsSecureUnderTLS() async throws {
        try await PlainBrowser.run { browser, token, _, _ in
            let fields = [("account", "alice"), ("token", token)]
            let page = try await browser.post("/sign-in", fields, [("x-forwarded-proto", "https")])
            let cookie = try #require(page.headers.first(name: "set-cookie"))
            #expect(cookie.hasPrefix("__Host-ubiquity=") && cookie.hasSuffix("; Secure"))
            #expect(cookie.contains("; Path=/;"))
        }
    }

    @Test func wrongTokenAndWrongAccountShowTheFormAgain() async throws {
        try await PlainBrowser.run { browser, token, _, cloud in
            _ = try await cloud.createAccount("bob")
            let guess = try await browser.signIn("guess")
            #expect(guess.status == 401 && guess.text.contains("role=\"alert\""))
            let other = try await browser.signIn(token, account: "bob")
            #expect(other.status == 401 && browser.cookie == nil)
        }
    }

    @Test func signInLeadsOnlyToPagesOfThisCloud() async throws {
        try await PlainBrowser.run { browser, token, _, _ in
            for next in ["//evil.example/", "https://evil.example/", "/\\evil.example", "/a\nb"] {
                let page = try await browser.post("/sign-in", [("token", token), ("next", next)])
                #expect(page.location == "/", "\(next)")
            }
            let page = try await browser.post("/sign-in", [("token", token), ("next", "/containers/default?page=2")])
            #expect(page.location == "/containers/default?page=2")
            #expect(try await browser.post(
                "/sign-in", [("token", token)], [("sec-fetch-site", "cross-site")]).status == 403)
        }
    }

    @Test func signOutEndsTheSession() async throws {
        try await PlainBrowser.runSignedIn { browser, _, _ in
            let cookie = try #require(browser.cookie)
            #expect(try await browser.post("/sign-out", [], isOwn: false).status == 403)
            let page = try await browser.post("/sign-out", [])
            #expect(page.status == 303 && browser.cookie == nil)
            #expect(try await browser.get("/", [("cookie", cookie)]).status == 401)
        }
    }

    @Test("The session ends with its token (AW-14)") func revokedTokenEndsTheSession() async throws {
        try await PlainBrowser.run { browser, _, _, cloud in
            let new = try await cloud.tokens.create(of: "alice", TokenRequest(name: "browser"))
            try await browser.signIn(new.token)
            #expect(try await browser.get("/").status == 200)
            try await cloud.tokens.revoke("browser", of: "alice")
            #expect(try await browser.get("/").status == 401)
        }
    }

    @Test func sessionsEndByTimeAndByNumber() throws {
        let time = Lock(Duration.zero)
        let sessions = WebSessions(random: SystemRandom(), uptime: { time.withLock { $0 } })
        let name = sessions.begin(token: "t", number: 1, account: "alice")
        time.withLock { $0 += WebLimits.idleSession - .seconds(1) }
        #expect(sessions.find(name) != nil)
        time.withLock { $0 += WebLimits.idleSession }
        #expect(sessions.find(name) == nil)
        // However often it is used, it ends after a week.
        let used = sessions.begin(token: "t", number: 1, account: "alice")
        var hours = 0
        while sessions.find(used) != nil {
            time.withLock { $0 += .seconds(3600) }
            hours += 1
        }
        #expect(hours == 7 * 24)
        for _ in 0..<(WebLimits.sessionsPerAccount + 5) {
            _ = sessions.begin(token: "t", number: 2, account: "alice")
        }
        #expect(sessions.count == WebLimits.sessionsPerAccount)
        sessions.revoke(2)
        #expect(sessions.count == 0)
    }
}
