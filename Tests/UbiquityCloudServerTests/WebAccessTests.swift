import Testing
@testable import UbiquityCloudServer
import UbiquityCloudStore
import UbiquityCore

/// A checklist of accessibility: landmarks, labels, contrast, the order of the focus.
@Suite struct WebAccessTests {
    private func pages(_ body: (String, String) throws -> Void) async throws {
        try await PlainBrowser.runSignedIn { browser, device, _ in
            let fixture = WebFixture(device)
            let id = try await fixture.makeConflict("a.txt", base: "1\n", mine: "2\n", theirs: "3\n")
            let others = try await fixture.make([("b.png", "x"), ("folder/", ""), ("gone", "x")])
            try await browser.post("/containers/default/items/\(others[2])/delete", [])
            for path in [
                "/", "/sign-in", "/devices", "/storage", "/containers/default", "/containers/default/trash",
                "/containers/default/conflicts", "/containers/default/items/\(id)",
                "/containers/default/items/\(id)/conflicts", "/containers/default/search?q=a",
                "/containers/default/move?item=\(id)", "/containers/none",
            ] {
                try body(path, try await browser.get(path).text)
            }
        }
    }

    /// The start tags of a page.
    private func tags(_ text: String, _ name: String) -> [String] {
        text.split(separator: "<").filter { $0.hasPrefix(name + " ") || $0.hasPrefix(name + ">") }.map {
            String($0.prefix { $0 != ">" })
        }
    }

    @Test func pagesHaveLandmarksOneHeadingAndALanguage() async throws {
        try await pages { path, text in
            #expect(text.contains("<html lang=\"en\">") && text.contains("<title>"), "\(path)")
            #expect(tags(text, "main").count == 1 && tags(text, "header").count == 1, "\(path)")
            #expect(tags(text, "h1").count == 1, "\(path)")
            #expect(text.contains("<a class=\"skip\" href=\"#main\">"), "\(path)")
            // The first thing that the keyboard reaches.
            let skip = text.firstRange(of: "class=\"skip\"")?.lowerBound
            let others = ["class=\"brand\"", "<input type=\"search\"", "<nav"].compactMap {
                text.firstRange(of: $0)?.lowerBound
            }
            let first = ([skip].compactMap { $0 } + others).min()
            #expect(first == skip && skip != nil, "\(path)")
            #expect(!text.contains("tabindex=\"1\"") && !text.contains("autofocus"), "\(path)")
            for nav in tags(text, "nav") { #expect(nav.contains("aria-label="), "\(path)") }
        }
    }

    @Test func fieldsHaveLabelsAndPicturesHaveTexts() async throws {
        try await pages { path, text in
            for image in tags(text, "img") { #expect(image.contains(" alt="), "\(path)") }
            for icon in tags(text, "svg") { #expect(icon.contains("aria-hidden=\"true\""), "\(path)") }
            for part in text.components(of: "<input ").dropFirst() + text.components(of: "<select ").dropFirst() {
                let tag = part.own.prefix { $0 != ">" }
                guard !tag.contains("type=\"hidden\"") else { continue }
                let id = tag.firstRange(of: "id=\"").map { String(tag[$0.upperBound...].prefix { $0 != "\"" }) }
                let isNamed = id.map { text.contains("<label class=\"hidden\" for=\"\($0)\"")
                    || text.contains("for=\"\($0)\"") } ?? false
                let opened = part.before.components(of: "<label").count - part.before.components(of: "</label").count
                #expect(isNamed || opened > 0, "\(path): \(tag)")
            }
            for part in text.components(of: "<button").dropFirst() {
                let body = part.own.drop { $0 != ">" }.dropFirst()
                #expect(!body.hasPrefix("</button"), "\(path): a button without a text")
            }
            for table in text.components(of: "<table").dropFirst() {
                #expect(table.own.contains("<caption"), "\(path)")
            }
        }
    }

    /// At least 4.5 to 1 for every pair of colours that text uses, light and dark (WCAG 1.4.3).
    @Test func textsHaveContrast() throws {
        let style = StyleSheet.text, dark = try #require(style.firstRange(of: "prefers-color-scheme:dark"))
        for sheet in [String(style[..<dark.lowerBound]), String(style[dark.lowerBound...])] {
            let color = { (name: String) -> Double in
                let start = try #require(sheet.firstRange(of: "--\(name):#")?.upperBound)
                return Self.luminance(String(sheet[start...].prefix { $0.isHexDigit }))
            }
            for (text, ground) in [
                ("text", "page"), ("text", "card"), ("soft", "page"), ("soft", "card"), ("accent", "card"),
                ("accent", "page"), ("accent", "tint"), ("on-accent", "accent"), ("warn", "warn-tint"),
                ("bad", "bad-tint"), ("bad", "card"), ("good", "good-tint"), ("text", "tint"), ("text", "bad-tint"),
                ("text", "good-tint"),
            ] {
                let (one, two) = (try color(text), try color(ground))
                let contrast = (max(one, two) + 0.05) / (min(one, two) + 0.05)
                #expect(contrast >= 4.5, "\(text) on \(ground): \(contrast)")
            }
        }
    }

    private static func luminance(_ hex: String) -> Double {
        let digits = hex.count == 3 ? hex.flatMap { [$0, $0] } : Array(hex)
        let parts = stride(from: 0, to: 6, by: 2).map { place -> Double in
            let value = Double(Int(String(digits[place...(place + 1)]), radix: 16) ?? 0) / 255
            // The curve of sRGB, by a polynomial close enough for this check.
            let curve = value * (value * (value * 0.305306011 + 0.682171111) + 0.012522878)
            return value <= 0.04045 ? value / 12.92 : curve
        }
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    }

    @Test func targetsAreLargeAndMotionIsOptional() throws {
        let style = StyleSheet.text
        #expect(style.contains("min-height:44px") && style.contains(".more{display:grid;place-items:center;width:44px"))
        #expect(style.contains("prefers-reduced-motion") && style.contains(":focus-visible"))
        #expect(!style.contains("outline:none}\n        :focus"))
    }
}

extension String {
    /// The parts between a text, each with all that comes before it.
    fileprivate func components(of separator: String) -> [(own: Substring, before: Substring)] {
        var parts = [(own: Substring, before: Substring)](), start = startIndex
        while let found = self[start...].firstRange(of: separator) {
            parts.append((self[start..<found.lowerBound], self[..<start]))
            start = found.upperBound
        }
        parts.append((self[start...], self[..<start]))
        return parts
    }
}

extension Substring {
    fileprivate func components(of separator: String) -> [(own: Substring, before: Substring)] {
        String(self).components(of: separator)
    }
}
