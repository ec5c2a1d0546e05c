package import Logging
package import UbiquityContent
package import UbiquityCoordination
package import UbiquityCore
package import UbiquityIndex
package import UbiquitySystem

/// The dependencies and settings of a file system.
package struct FileSystemParts: Sendable {
    package var index: ItemIndex
    package var contents: ContentStore
    package var materializer: any Materializer
    package var transfers: any TransferStatus
    package var control: any ItemControl
    package var versions: any VersionSource
    package var kernel: any KernelCache
    package var passthrough: any Passthrough
    package var timekeeper: any Timekeeper
    package var container: ContainerID
    /// Why the container is empty and takes no items, for example "signed out"; nil for an ordinary container.
    package var vacancy: String?
    package var logger: Logger
    /// Arbitrates between programs and clients; nil where there are no clients.
    package var coordination: Coordination?
    /// Recognizes programs whose reads download nothing.
    package var backgroundReaders: BackgroundReaders
    /// Programs that may download files they open with O_NOATIME.
    package var noAccessTimeReaders: NoAccessTimeReaders
    /// The pool that creates backing files in advance; nil to create none.
    package var preparation: BlockingPool?
    /// The pool that flushes the index while content is flushed; nil to flush one after the other.
    package var syncing: BlockingPool?
    /// Whether one flush may bring both index and content to disk, where their file system allows it.
    package var sharesFlushes: Bool
    /// Whether the record of a close may wait a little for another change (`ClosingFiles`).
    package var delaysCloses: Bool
    /// Largest content, in bytes, that an open waits for.
    package var smallContent: Int64

    /// Up to this number of handles, a file open for writing keeps a second, read-only descriptor. It saves an open
    /// when the writer closes. Beyond this number it would halve the count of files that can be open.
    package var filesWithTwoDescriptors: Int

    /// Default of `smallContent`: about as much as a few requests to the cloud bring.
    package static let smallContent: Int64 = 512 << 10

    /// Whether directories show the losing versions of documents in conflict (`VisibleConflicts`).
    package var showsConflicts: Bool

    package init(
        index: ItemIndex, contents: ContentStore, materializer: any Materializer, transfers: any TransferStatus,
        control: any ItemControl, versions: any VersionSource, kernel: any KernelCache,
        passthrough: any Passthrough = NoPassthrough(), timekeeper: any Timekeeper, container: ContainerID,
        logger: Logger, coordination: Coordination? = nil, backgroundReaders: BackgroundReaders = .none,
        noAccessTimeReaders: NoAccessTimeReaders = NoAccessTimeReaders(),
        preparation: BlockingPool? = nil, syncing: BlockingPool? = nil, sharesFlushes: Bool = true,
        delaysCloses: Bool = false, vacancy: String? = nil, smallContent: Int64 = Self.smallContent,
        filesWithTwoDescriptors: Int = ProcessHost.openFileLimit / 16, showsConflicts: Bool = false
    ) {
        self.index = index
        self.contents = contents
        self.materializer = materializer
        self.transfers = transfers
        self.control = control
        self.versions = versions
        self.kernel = kernel
        self.passthrough = passthrough
        self.timekeeper = timekeeper
        self.container = container
        self.vacancy = vacancy
        self.logger = logger
        self.coordination = coordination
        self.backgroundReaders = backgroundReaders
        self.noAccessTimeReaders = noAccessTimeReaders
        self.preparation = preparation
        self.syncing = syncing
        self.sharesFlushes = sharesFlushes
        self.delaysCloses = delaysCloses
        self.smallContent = smallContent
        self.filesWithTwoDescriptors = filesWithTwoDescriptors
        self.showsConflicts = showsConflicts
    }
}
