// The containers of an account, in plain JSON.

/// A container.
package struct ContainerEntry: Codable, Hashable, Sendable {
    package var name: String
    /// The name for people; nil if none is set.
    package var displayName: String?

    package init(name: String, displayName: String? = nil) {
        self.name = name
        self.displayName = displayName
    }
}

package struct ContainerList: Codable, Hashable, Sendable {
    package var containers: [ContainerEntry]
    package init(containers: [ContainerEntry]) { self.containers = containers }
}

/// New settings of a container.
package struct ContainerSettings: Codable, Hashable, Sendable {
    /// Nil keeps the display name; an empty one removes it.
    package var displayName: String?
    package init(displayName: String?) { self.displayName = displayName }
}
