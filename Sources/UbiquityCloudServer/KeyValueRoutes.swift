import FoundationEssentials
import Hummingbird
internal import UbiquityCloudStore
internal import UbiquityCore
internal import UbiquityWire

/// The key-value stores of a container: their feed, and the sets of a device.
struct KeyValueRoutes: Sendable {
    let access: CloudAccess

    func add(to router: Router<CloudContext>) {
        router.get("v1/containers/:container/kv", use: page)
        router.post("v1/containers/:container/kv", use: push)
    }

    @Sendable private func page(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (_, service) = try await access.keyValues(request, context)
        let point = KeyValuePoint(
            revision: Revision(try request.number("after", in: 0...Int64.max, else: 0)),
            incarnation: try request.unsigned("incarnation"))
        return try Response(json: KeyValuePageMessage(await service.keyValues(after: point)))
    }

    @Sendable private func push(_ request: Request, _ context: CloudContext) async throws -> Response {
        let (holder, service) = try await access.keyValues(request, context, isWriting: true)
        let limit = KeyValueLimits.messageLength
        let announced = try request.announcedLength(limit: limit)
        let length = announced == 0 && request.header("transfer-encoding") != nil ? limit : announced
        let push = {
            let bytes = try await request.bytes(limit: limit)
            let results = try await service.push(Self.message(bytes).push())
            return try Response(json: KeyValueAnswerMessage(results))
        }
        return length <= ServerLimits.smallBody
            ? try await push() : try await access.bodies.run(length, of: holder.account, push)
    }

    private static func message(_ bytes: [UInt8]) throws(UbiquityError) -> KeyValuePushMessage {
        do {
            return try JSONDecoder().decode(KeyValuePushMessage.self, from: Data(bytes))
        } catch {
            throw UbiquityError(.invalid, "the request is not {\"device\": \"…\", \"sentAt\": 0, \"changes\": […]}")
        }
    }
}
