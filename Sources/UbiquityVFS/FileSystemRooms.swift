internal import UbiquityIndex

/// The rooms of the file system, built in the order of their dependencies: a room knows only rooms above it.
///
/// `ContainerFileSystem` builds them once and passes each call to one of them.
struct FileSystemRooms: Sendable {
    // MARK: What the others use

    let context: FileSystemContext
    let ignoreFiles: IgnoreFiles
    let visibleConflicts: VisibleConflicts
    let completions = CompletionWaiters()

    // MARK: Open files

    let uses: LastUses
    let service: FileService
    let recorder: WriteRecorder
    let mapped: MappedFiles
    let openFiles: OpenFiles
    let closes: DelayedCloses
    let newContents: NewContents
    let contentSync: ContentSync
    let backing: BackingFiles
    let wholeFiles: WholeFiles
    let truncation: Truncation
    let opening: FileOpening
    let io: FileIO

    // MARK: Names and attributes

    let attributes: Attributes
    let attributeSetter: AttributeSetter
    let unnamed: UnnamedFiles
    let versions: VersionsFolder
    let namespace: Namespace
    let decisions: VersionDecisions
    let directories: DirectoryReader
    let xattrs: Xattrs

    // MARK: The kernel

    let news: KernelNews
    let replays: ReplayCalls
    let replayAnswers: ReplayAnswers
    let exchange: ContainerExchange

    init(_ parts: FileSystemParts) {
        context = FileSystemContext(parts)
        ignoreFiles = IgnoreFiles(context)
        visibleConflicts = VisibleConflicts(index: parts.index, isOn: parts.showsConflicts)
        let waitingCalls = WaitingCalls()
        let departures = Departures()
        let queue = Replays()

        uses = LastUses(context)
        service = FileService(context)
        recorder = WriteRecorder(context)
        mapped = MappedFiles(context, recorder: recorder)
        openFiles = OpenFiles(context, service: service, mapped: mapped, uses: uses)
        closes = DelayedCloses(context, openFiles: openFiles, recorder: recorder)
        newContents = NewContents(context)
        contentSync = ContentSync(
            context, openFiles: openFiles, closes: closes, recorder: recorder, newContents: newContents)
        backing = BackingFiles(context, contentSync: contentSync, recorder: recorder, service: service)
        wholeFiles = WholeFiles(
            context, openFiles: openFiles, closes: closes, backing: backing, contentSync: contentSync,
            recorder: recorder)
        let arriving = ArrivingContents(
            context: context, materializer: parts.materializer, completions: completions,
            smallContent: parts.smallContent)
        truncation = Truncation(
            context, openFiles: openFiles, wholeFiles: wholeFiles, closes: closes, backing: backing,
            contentSync: contentSync, recorder: recorder, newContents: newContents, arriving: arriving,
            waitingCalls: waitingCalls)
        opening = FileOpening(
            context, openFiles: openFiles, wholeFiles: wholeFiles, truncation: truncation, closes: closes, uses: uses,
            arriving: arriving)
        io = FileIO(
            context, openFiles: openFiles, backing: backing, contentSync: contentSync, arriving: arriving,
            waitingCalls: waitingCalls)

        attributes = Attributes(context, backing: backing)
        attributeSetter = AttributeSetter(
            context, attributes: attributes, truncation: truncation, closes: closes, openFiles: openFiles)
        unnamed = UnnamedFiles(
            context, openFiles: openFiles, wholeFiles: wholeFiles, newContents: newContents, attributes: attributes)
        versions = VersionsFolder(context, packages: PackageVersions(context), openFiles: openFiles)
        namespace = Namespace(
            context, attributes: attributes, versions: versions, visibleConflicts: visibleConflicts,
            ignoreFiles: ignoreFiles, unnamed: unnamed, wholeFiles: wholeFiles, newContents: newContents,
            closes: closes, backing: backing)
        decisions = VersionDecisions(
            context, namespace: namespace, versions: versions, packages: versions.packages,
            visibleConflicts: visibleConflicts)
        directories = DirectoryReader(
            context, attributes: attributes, versions: versions, visibleConflicts: visibleConflicts,
            departures: departures)
        xattrs = Xattrs(context, versions: VersionXattrs(context), closes: closes)

        news = KernelNews(
            context, departures: departures, completions: completions, ignoreFiles: ignoreFiles,
            visibleConflicts: visibleConflicts, service: service, replays: queue)
        replays = ReplayCalls(context, replays: queue, news: news, waitingCalls: waitingCalls)
        replayAnswers = ReplayAnswers(
            context, replays: queue, calls: replays, namespace: namespace, stat: attributes)
        exchange = ContainerExchange(context, replays: queue, openFiles: openFiles, attributes: attributes)
    }
}
