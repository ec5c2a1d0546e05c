import Foundation
import Testing

/// The local socket's HTTP interface as `Sources/UbiquityControl/openapi.json` describes it.
@Suite struct SocketInterfaceTests {
    private static let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/UbiquityControl")

    /// CI-02, CI-03: an app uses the containers of its list, and no others.
    @Test("the OpenAPI file and the server have the same routes and shapes of answers")
    func openAPI() async throws {
        try await World.run { world in
            let (a, b) = (try await world.mounted("a"), try await world.mounted("b"))
            try await a.shell("mkdir d; echo base > f; echo base > g; echo base > d/h")
            try await world.settle(a, b)
            try await world.meet(a, "echo loses > f", b, "echo wins > f")
            try await a.waitFor("conflict-count", "1", of: "f")
            try await world.shell(
                """
                mkdir -p "$HOME/.config/ubiquity"
                printf 'app.this-app = default\\napp.other-app = notes, photos\\n' > "$HOME/.config/ubiquity/config"
                """)
            let arguments = [a.containerState + "/control.sock", Self.sources.path]
            let outcome = try await world.attempt(["/usr/bin/python3", "-c", Self.program] + arguments, within: 120)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.text == "all routes")
        }
    }

    private static let program = #"""
        import http.client, json, os, re, socket, sys
        address, sources = sys.argv[1:]
        api = json.load(open(sources + "/openapi.json"))
        routes = set(re.findall(r'"(/v1/[^"]*)"', open(sources + "/ControlRoute.swift").read()))
        assert routes == set(api["paths"]), routes ^ set(api["paths"])
        used, open_streams = set(), []

        class Local(http.client.HTTPConnection):
            def connect(self):
                self.sock = socket.socket(socket.AF_UNIX)
                self.sock.settimeout(60)
                self.sock.connect(address)

        def check(value, schema, place):
            for part in schema.get("allOf", []):
                check(value, part, place)
            if "$ref" in schema:
                return check(value, api["components"]["schemas"][schema["$ref"].split("/")[-1]], place)
            kind = schema.get("type")
            kinds = {"string": str, "boolean": bool, "integer": int, "number": (int, float), "array": list, "object": dict}
            assert kind is None or isinstance(value, kinds[kind]), (place, value, kind)
            assert kind not in ("integer", "number") or not isinstance(value, bool), (place, value)
            assert value in schema.get("enum", [value]), (place, value)
            for item in value if kind == "array" else []:
                check(item, schema["items"], place + "[]")
            if kind == "object":
                if "properties" not in schema:
                    for name in value:
                        check(value[name], schema["additionalProperties"], place + "." + name)
                    return
                unknown = set(value) - set(schema["properties"])
                missing = set(schema["required"]) - set(value)
                assert not unknown and not missing, (place, "unknown", unknown, "missing", missing)
                for name in value:
                    check(value[name], schema["properties"][name], place + "." + name)

        def call(route, status=200, method=None, path_of=None, **message):
            if method is None:
                (method, operation), = api["paths"][route].items()
            operation = api["paths"][route][method]
            used.add(route)
            body = None
            if "requestBody" in operation:
                check(message, operation["requestBody"]["content"]["application/json"]["schema"], route + " request")
                body = json.dumps(message)
            connection = Local("localhost")
            connection.request(method.upper(), path_of or route, body)
            answer = connection.getresponse()
            assert answer.status == status, (route, answer.status, answer.read())
            (media, content), = operation["responses"][str(status)]["content"].items()
            assert answer.getheader("content-type").split(";")[0] == media, (route, answer.getheader("content-type"))
            if media == "application/json":
                check(result := json.loads(answer.read()), content["schema"], route)
                return result
            found = []
            for line in answer:
                if media == "text/event-stream" and not line.startswith(b"data: ") or not line.strip():
                    continue
                found.append(json.loads(line[6:] if media == "text/event-stream" else line))
                check(found[-1], content["schema"], route)
                if media == "text/event-stream" and found[-1]["kind"] in ("registered", "listening", "gathered"):
                    open_streams.append(answer)
                    break
            assert found, route
            return found

        def refused(route, status=409, **message):
            return call(route, status, **message)["code"]

        def answer(method, path, body):
            connection = Local("localhost")
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, json.loads(response.read())["code"]

        def of_app(name, route):
            connection = Local("localhost")
            connection.request(next(iter(api["paths"][route])).upper(), route, None, {"Ubiquity-App": name})
            response = connection.getresponse()
            return response.status, json.loads(response.read()).get("code")

        # An app whose list lacks this container is refused at every route, and changes nothing.
        for route in sorted(routes):
            assert of_app("other-app", route) == (403, "accessDenied"), route
        # An app with the container in its list, and one without a list.
        for name in ("this-app", "unlisted"):
            assert of_app(name, "/v1/status")[0] == 200, name
        call("/v1/events")
        call("/v1/status")
        call("/v1/items/status", paths=["f", "d", "none"])
        for name in ["download", "pin", "unpin"]:
            call("/v1/items/" + name, paths=["g", "d", "none"])
        call("/v1/wait", paths=[], uploaded=True, downloaded=False, idle=True, timeout=60)
        call("/v1/items/evict", paths=["g", "none"])
        conflict = [v for v in call("/v1/versions", paths=["f"])["versions"] if v["kind"] == "conflict"][0]
        call("/v1/versions", 409, paths=["none"])
        assert call("/v1/items/sync", path="g", action="pause")["isPaused"]
        assert not call("/v1/items/sync", path="g", action="resume")["isPaused"]
        fetched = call("/v1/items/sync", path="g", action="fetch")
        os.unlink(os.path.join(os.path.dirname(address), "incoming", fetched["content"]))
        assert call("/v1/items/sync", path="g", action="upload", failsOnConflict=True)["version"]["kind"] == "current"
        incoming = os.path.join(os.path.dirname(address), "incoming")
        os.makedirs(incoming, exist_ok=True)
        open(os.path.join(incoming, "x"), "w").write("draft")
        draft = call("/v1/versions/add", path="g", content="x", origin="manual", isDiscardable=False)
        assert draft["size"] == 5 and draft["name"] and not os.listdir(incoming), draft
        assert call("/v1/versions/change", path="g", version=draft["id"], isDiscardable=True)["isDiscardable"]
        assert refused("/v1/versions/add", path="g", content="../f", origin="manual", isDiscardable=True) == "invalid"
        call("/v1/versions/restore", path="f", version=conflict["id"], to="kept")
        call("/v1/versions/resolve", path="f", keep="current")
        link = call("/v1/publish", path="f", lifetime=60)["link"]
        assert [one["id"] for one in call("/v1/publish/list", path="f")["links"]] == [link["id"]]
        call("/v1/publish/revoke", link=link["id"])
        assert refused("/v1/publish/revoke", link=link["id"]) == "notFound"
        call("/v1/queries", scopes=["data"], predicate="", isLive=True)
        client = call("/v1/clients", name="te\x1bst\n", answerTime=5)[0]["client"]
        assert call("/v1/coordination")["clients"][0]["name"] == "te\ufffdst\ufffd"
        presenter = call("/v1/presenters", client=client, path="f", abilities=["save-changes"])["presenter"]
        assert refused("/v1/presenters/moves", client=client, path="f", destination="/tmp/f") == "notFound"
        call("/v1/presenters/moves", client=client, path="f")
        assert refused("/v1/presenters/moves", client=client, path="f", destination="f") == "invalid"
        call("/v1/presenters/moves", client=client, path="f", destination="/tmp/f")
        claim = call("/v1/claims", client=client, items=[{"path": "f", "use": "write"}], presenter=presenter, token="t")[0]
        assert call("/v1/coordination")["claims"][0]["items"] == ["write f"]
        call("/v1/claims/end", client=client, claim=claim["claim"])
        call("/v1/presenters/answer", client=client, question=1)
        assert refused("/v1/claims/end", client=client, claim=claim["claim"]) == "notFound"
        assert refused("/v1/presenters", client=client, path="none", abilities=[]) == "notFound"
        assert refused("/v1/presenters", client=client + 1000, path="f", abilities=[]) == "notFound"
        assert refused("/v1/presenters/remove", client=client, presenter=presenter + 1000) == "notFound"
        assert refused("/v1/presenters/answer", client=client + 1000, question=1) == "notFound"
        assert refused("/v1/clients/leave", client=client + 1000) == "notFound"
        many = [{"path": "f", "use": "read"}] * 10001
        assert call("/v1/claims", client=client, items=many)[0]["failure"]["code"] == "tooManyRequests"
        assert refused("/v1/items/status", 413, paths=["x" * (17 << 20)]) == "tooLarge"
        call("/v1/presenters/remove", client=client, presenter=presenter)
        call("/v1/clients/leave", client=client)
        theme = "/v1/kv/default/th%2Feme%20%C3%A9"
        call("/v1/kv/{store}/{key}", method="put", path_of=theme, value={"dictionary": {"a": {"array": [{"integer": 1}]}}})
        assert call("/v1/kv/{store}/{key}", method="get", path_of=theme)["key"] == "th/eme \u00e9"
        call("/v1/kv/{store}", method="post", path_of="/v1/kv/default")
        assert len(call("/v1/kv/{store}", method="get", path_of="/v1/kv/default")["items"]) == 1
        call("/v1/kv/{store}/{key}", method="delete", path_of=theme)
        call("/v1/kv/{store}/{key}", 409, method="get", path_of="/v1/kv/default/none")
        call("/v1/trash", limit=10)
        call("/v1/trash/restore", 409, item="none")
        call("/v1/deletions", decision="confirm")
        assert call("/v1/log", level="debug")["level"] == call("/v1/log")["level"] == "debug"
        assert refused("/v1/log", level="loud") == "invalid"
        for body in ("", "{", "[]", "\0", '{"paths":7}'):
            assert answer("POST", "/v1/items/status", body) == (400, "invalid"), body
        assert answer("GET", "/v1/nothing", None) == (404, "notFound")
        assert answer("DELETE", "/", None) == (404, "notFound")
        call("/v1/doctor", check=True, quick=True)
        assert call("/v1/account")["hasChanged"] is False
        call("/v1/offline")
        call("/v1/online")
        call("/v1/stop", lazy=True)
        assert used == routes, routes - used
        print("all routes")
        """#
}
