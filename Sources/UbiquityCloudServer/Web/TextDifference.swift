/// The differences of two texts, line by line.
struct TextDifference: Sendable {
    enum Row: Hashable, Sendable {
        case same(String)
        /// A line of one side that faces a line, or nothing, of the other.
        case different(old: String?, new: String?)
        /// Equal lines that are not shown.
        case gap(Int)
    }

    let rows: [Row]
    /// False if the texts differ in too many lines: then all of them face each other.
    let isExact: Bool

    init(_ old: String, _ new: String) {
        let old = Self.lines(of: old), new = Self.lines(of: new)
        let head = zip(old, new).prefix { $0 == $1 }.count
        let tail = zip(old.dropFirst(head).reversed(), new.dropFirst(head).reversed()).prefix { $0 == $1 }.count
        let left = Array(old[head..<(old.count - tail)]), right = Array(new[head..<(new.count - tail)])
        isExact = max(left.count, right.count) <= WebLimits.comparedLines
        let middle = isExact ? Self.compare(left, right) : Self.face(left, right)
        let all = old.prefix(head).map { Row.same($0) } + middle + old.suffix(tail).map { Row.same($0) }
        rows = Self.shortened(all)
    }

    private static func lines(of text: String) -> [String] {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last == "" { lines.removeLast() }
        return lines
    }

    private static func compare(_ old: [String], _ new: [String]) -> [Row] {
        let difference = new.difference(from: old)
        var removed = Set<Int>(), inserted = Set<Int>()
        for change in difference {
            switch change {
            case .remove(let offset, _, _): removed.insert(offset)
            case .insert(let offset, _, _): inserted.insert(offset)
            }
        }
        var rows = [Row](), left = 0, right = 0
        while left < old.count || right < new.count {
            var (gone, added) = ([String](), [String]())
            while left < old.count, removed.contains(left) {
                gone.append(old[left])
                left += 1
            }
            while right < new.count, inserted.contains(right) {
                added.append(new[right])
                right += 1
            }
            rows += face(gone, added)
            guard left < old.count, right < new.count else { continue }
            rows.append(.same(old[left]))
            left += 1
            right += 1
        }
        return rows
    }

    private static func face(_ old: [String], _ new: [String]) -> [Row] {
        (0..<max(old.count, new.count)).map { place in
            .different(
                old: place < old.count ? old[place] : nil, new: place < new.count ? new[place] : nil)
        }
    }

    /// Without the equal lines that are far from a difference.
    private static func shortened(_ rows: [Row]) -> [Row] {
        var shown = [Row](), equal = [Row]()
        let context = WebLimits.contextLines
        func flush(isLast: Bool) {
            let head = shown.isEmpty ? 0 : context, tail = isLast ? 0 : context
            if equal.count > head + tail + 1 {
                shown += equal.prefix(head)
                shown.append(.gap(equal.count - head - tail))
                shown += equal.suffix(tail)
            } else {
                shown += equal
            }
            equal = []
        }
        for row in rows {
            if case .same = row {
                equal.append(row)
            } else {
                flush(isLast: false)
                shown.append(row)
            }
        }
        flush(isLast: true)
        return shown
    }

    /// A table with the two sides.
    func html(old: HTML, new: HTML) -> HTML {
        let lines = rows.map { row -> HTML in
            switch row {
            case .same(let text): "<tr><td>\(text)</td><td>\(text)</td></tr>"
            case .gap(let count):
                "<tr class=\"gap\"><td colspan=\"2\">\(count) equal lines</td></tr>"
            case .different(let old, let new):
                "<tr>\(Self.cell(old.map(Self.deleted), "old"))\(Self.cell(new.map(Self.inserted), "new"))</tr>"
            }
        }
        return """
            <table class="diff"><caption class="hidden">Differences, line by line</caption><thead>\
            <tr><th scope="col">\(old)</th><th scope="col">\(new)</th></tr></thead><tbody>\(lines)</tbody></table>
            """
    }

    private static func cell(_ text: HTML?, _ name: String) -> HTML {
        text.map { "<td class=\"\(name)\">\($0)</td>" } ?? "<td></td>"
    }

    private static func deleted(_ text: String) -> HTML { "<del>\(text)</del>" }
    private static func inserted(_ text: String) -> HTML { "<ins>\(text)</ins>" }
}
