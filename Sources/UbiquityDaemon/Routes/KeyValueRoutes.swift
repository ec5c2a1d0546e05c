import Hummingbird
import UbiquityControl
import UbiquityCore

/// The routes of key-values. The store and the key are percent-encoded in the path.
struct KeyValueRoutes: Sendable {
    let commands: KeyValueCommands
    let responder: Responder

    func add(to router: Router<BasicRequestContext>) {
        let store = RouterPath(ControlRoute.keyValues), key = RouterPath(ControlRoute.keyValue)
        router.get(store) { _, context in
            try await responder.answer { try await commands.list(Self.name("store", context)) }
        }
        router.post(store) { _, context in
            try await responder.answer { try await commands.synchronize(Self.name("store", context)) }
        }
        router.get(key) { _, context in
            try await responder.answer {
                try await commands.get(Self.name("store", context), Self.name("key", context))
            }
        }
        router.put(key) { request, context in
            try await responder.answer {
                let wanted = try await responder.message(KeyValueWrite.self, of: request)
                return try await commands.set(
                    Self.name("store", context), Self.name("key", context), wanted.value)
            }
        }
        router.delete(key) { _, context in
            try await responder.answer {
                try await commands.set(Self.name("store", context), Self.name("key", context), nil)
            }
        }
    }

    private static func name(_ parameter: String, _ context: BasicRequestContext) throws -> String {
        guard let name = context.parameters.get(parameter).flatMap(PercentEncoding.decode) else {
            throw UbiquityError(.invalidName, "the \(parameter) in the path is not percent-encoded UTF-8")
        }
        return name
    }
}
