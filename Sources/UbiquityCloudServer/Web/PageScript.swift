/// The script of the pages. Every page works without it.
///
/// It shows times in the reader's zone, opens pages of items as dialogs, uploads dropped files with progress, and shows
/// changes of devices.
enum PageScript {
    static let text = #"""
        "use strict";
        (() => {
        const root = document.documentElement;
        root.classList.add("script");
        const main = document.getElementById("main");
        const find = (query, from = document) => from.querySelector(query);
        const all = (query, from = document) => [...from.querySelectorAll(query)];
        const make = (name, properties = {}, ...children) => {
          const element = Object.assign(document.createElement(name), properties);
          element.append(...children);
          return element;
        };
        const say = (text, kind = "notice") => find("#notices")?.replaceChildren(make("p", {className: kind}, text));

        // Times in the reader's zone and language.
        const today = new Intl.DateTimeFormat(undefined, {timeStyle: "short"});
        const thisYear = new Intl.DateTimeFormat(undefined, {day: "numeric", month: "short", hour: "numeric",
          minute: "2-digit"});
        const longAgo = new Intl.DateTimeFormat(undefined, {dateStyle: "medium"});
        const whole = new Intl.DateTimeFormat(undefined, {dateStyle: "full", timeStyle: "medium"});
        function localTimes(from) {
          const now = new Date();
          for (const time of all("time[datetime]", from)) {
            const date = new Date(time.dateTime);
            if (isNaN(date)) continue;
            const form = date.toDateString() === now.toDateString() ? today
              : date.getFullYear() === now.getFullYear() ? thisYear : longAgo;
            time.textContent = form.format(date);
            time.title = whole.format(date);
          }
        }

        // A picture that the browser cannot show becomes an icon.
        function watchPictures(from) {
          for (const image of all("img[data-icon]", from)) {
            image.addEventListener("error", () => {
              const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
              use.setAttribute("href", "#i-" + image.dataset.icon);
              const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
              icon.setAttribute("class", "icon");
              icon.append(use);
              image.replaceWith(icon);
            }, {once: true});
          }
        }

        // The bar of actions appears when something is selected.
        function showSelection() {
          const bar = find(".selection");
          if (!bar) return;
          const count = all("input[name=item]:checked").length;
          bar.classList.toggle("on", count > 0);
          const text = find(".count", bar);
          if (text) text.textContent = count === 1 ? "1 selected" : count + " selected";
        }
        document.addEventListener("change", event => {
          if (event.target.matches("input[data-all]"))
            for (const box of all("input[name=item]")) box.checked = event.target.checked;
          if (event.target.matches("select[data-submit]")) event.target.form.requestSubmit();
          showSelection();
        });

        // A link with data-dialog opens the content of its page above this one.
        let dialog;
        async function openDialog(address, small) {
          const response = await fetch(address, {headers: {accept: "text/html"}});
          const page = new DOMParser().parseFromString(await response.text(), "text/html");
          const content = find("main", page);
          if (!content || response.status === 401) return location.assign(address);
          dialog?.remove();
          const heading = find("h1", content);
          if (heading) heading.id = "dialog-title";
          const close = make("button", {type: "button", className: "close quiet"}, "Close");
          close.addEventListener("click", () => dialog.close());
          find(".crumbs:not(.path)", content)?.remove();
          find("#notices", content)?.remove();
          dialog = make("dialog", {className: small ? "small" : ""}, close, ...content.childNodes);
          dialog.setAttribute("aria-labelledby", "dialog-title");
          dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
          dialog.addEventListener("close", () => { dialog.remove(); dialog = null; });
          document.body.append(dialog);
          enhance(dialog);
          dialog.showModal();
        }
        document.addEventListener("click", event => {
          const link = event.target.closest("a[data-dialog]");
          if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
            event.preventDefault();
            openDialog(link.href, link.dataset.dialog === "small").catch(() => location.assign(link.href));
          }
          const upload = event.target.closest("summary")?.parentElement;
          if (upload && find(":scope > form[data-upload]", upload)) {
            event.preventDefault();
            find("input[type=file]", upload).click();
          }
          const copy = event.target.closest("button[data-copy]");
          if (copy) {
            navigator.clipboard?.writeText(copy.dataset.copy).then(
              () => { copy.textContent = "Copied"; }, () => find("#" + copy.dataset.from)?.select());
          }
          for (const open of all(".tools details[open]"))
            if (!open.contains(event.target)) open.open = false;
        });
        document.addEventListener("keydown", event => {
          if (event.key === "Escape") for (const open of all(".tools details[open]")) {
            open.open = false;
            find("summary", open).focus();
          }
          if (event.key === "/" && !event.target.matches("input,textarea,select")) {
            event.preventDefault();
            find("#q")?.focus();
          }
        });
        document.addEventListener("submit", event => {
          if (event.target.dataset.confirm && !confirm(event.target.dataset.confirm)) event.preventDefault();
        });

        // Uploads: one request a file, so that each has its progress and its own failure.
        let waiting = [], isSending = false, panel;
        function addUploads(files, form) {
          const names = new Set(all("[data-name]").map(row => row.dataset.name));
          const twins = files.filter(file => names.has(file.name));
          if (twins.length === 0) return enqueue(files, form, false);
          const text = twins.length === 1 ? `“${twins[0].name}” is here already.`
            : `${twins.length} files of these names are here already.`;
          const choose = (label, action, kind = "") => {
            const button = make("button", {type: "button", className: kind}, label);
            button.addEventListener("click", () => { question.close(); action(); });
            return button;
          };
          const question = make("dialog", {className: "small"}, make("h1", {id: "twins"}, text),
            make("p", {}, "A replaced file keeps its earlier version."),
            make("div", {className: "row"}, choose("Replace", () => enqueue(files, form, true), "primary"),
              choose("Keep both", () => enqueue(files, form, false)), choose("Cancel", () => {})));
          question.setAttribute("aria-labelledby", "twins");
          question.addEventListener("close", () => question.remove());
          document.body.append(question);
          question.showModal();
        }
        function enqueue(files, form, replace) {
          if (!panel) {
            panel = make("section", {className: "uploads"});
            panel.setAttribute("aria-label", "Uploads");
            panel.setAttribute("aria-live", "polite");
            document.body.append(panel);
          }
          for (const file of files) {
            const bar = make("progress", {max: 1, value: 0});
            bar.setAttribute("aria-label", file.name);
            const text = make("p", {}, file.name);
            panel.append(make("div", {}, text, bar));
            waiting.push({file, form, replace, bar, text});
          }
          if (!isSending) sendNext();
        }
        function sendNext() {
          const next = waiting.shift();
          if (!next) {
            isSending = false;
            refresh();
            if (find(".failure", panel)) return;
            setTimeout(() => { if (!isSending) { panel?.remove(); panel = null; } }, 2500);
            return;
          }
          isSending = true;
          const data = new FormData();
          for (const hidden of all("input[type=hidden]", next.form)) data.append(hidden.name, hidden.value);
          if (next.replace) data.append("replace", "1");
          data.append("file", next.file);
          const request = new XMLHttpRequest();
          request.open("POST", next.form.action);
          request.setRequestHeader("accept", "text/html");
          request.upload.onprogress = event => {
            if (event.lengthComputable) next.bar.value = event.loaded / event.total;
          };
          request.onloadend = () => {
            if (request.status >= 200 && request.status < 300) {
              next.bar.value = 1;
              next.text.textContent = "✓ " + next.file.name;
            } else {
              const page = new DOMParser().parseFromString(request.responseText || "", "text/html");
              const reason = find("[data-reason]", page)?.textContent || "the cloud cannot be reached";
              next.text.textContent = `${next.file.name}: ${reason}`;
              next.text.className = "failure";
              next.bar.remove();
            }
            sendNext();
          };
          request.send(data);
        }
        addEventListener("beforeunload", event => { if (isSending) event.preventDefault(); });
        document.addEventListener("change", event => {
          const form = event.target.closest("form[data-upload]");
          if (!form || event.target.type !== "file") return;
          addUploads([...event.target.files], form);
          event.target.value = "";
          form.closest("details")?.removeAttribute("open");
        });
        let drop;
        const carriesFiles = event => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
        addEventListener("dragover", event => {
          if (!carriesFiles(event) || !find("form[data-upload]")) return;
          event.preventDefault();
          if (!drop) document.body.append(drop = make("div", {className: "drop"}, "Drop files to upload them here"));
        });
        addEventListener("dragleave", event => { if (!event.relatedTarget) { drop?.remove(); drop = null; } });
        addEventListener("drop", event => {
          drop?.remove();
          drop = null;
          const form = find("form[data-upload]");
          if (!carriesFiles(event) || !form) return;
          event.preventDefault();
          const entries = [...event.dataTransfer.items].map(item => item.webkitGetAsEntry?.());
          const files = [...event.dataTransfer.files].filter((_, place) => !entries[place]?.isDirectory);
          if (files.length < event.dataTransfer.files.length) say("Folders are not uploaded. Make a folder here, "
            + "and drop the files into it.", "warning");
          addUploads(files, form);
        });

        // Changes of devices: the page's content is fetched again and replaced, unless the reader is in the middle of
        // something.
        let isStale = false, timer;
        const isBusy = () => dialog?.open || find("dialog[open]") || find(".tools details[open]")
          || document.activeElement?.matches("main input:not([type=checkbox]),main select,main textarea");
        async function refresh() {
          if (isBusy()) { isStale = true; return; }
          isStale = false;
          const response = await fetch(location.href, {headers: {accept: "text/html"}}).catch(() => null);
          if (!response) return;
          if (response.status === 401) return location.reload();
          const page = new DOMParser().parseFromString(await response.text(), "text/html");
          const fresh = find("main", page);
          if (!fresh || isBusy()) return;
          const chosen = new Set(all("input[name=item]:checked").map(box => box.value));
          const focused = document.activeElement?.id;
          const before = find("#content"), after = find("#content", fresh);
          if (!before || !after) return;
          enhance(after);
          if (before.innerHTML === after.innerHTML) return;
          before.replaceWith(after);
          for (const box of all("input[name=item]")) box.checked = chosen.has(box.value);
          if (focused) document.getElementById(focused)?.focus();
          const space = find(".space"), newSpace = find(".space", page);
          if (space && newSpace) space.replaceWith(newSpace);
          showSelection();
        }
        setInterval(() => { if (isStale) refresh(); }, 1000);
        let source, seen;
        function listen() {
          const address = main?.dataset.events;
          if (!address || source || document.hidden) return;
          source = new EventSource(address);
          source.addEventListener("revision", event => {
            const revision = JSON.parse(event.data).revision;
            if (seen !== undefined && revision !== seen) {
              clearTimeout(timer);
              timer = setTimeout(refresh, 150);
            }
            seen = revision;
          });
          source.addEventListener("failure", () => { source.close(); location.reload(); });
          source.onopen = () => { root.dataset.live = "on"; };
        }
        document.addEventListener("visibilitychange", () => {
          if (document.hidden) { source?.close(); source = null; } else { listen(); if (source) refresh(); }
        });

        function enhance(from) {
          localTimes(from);
          watchPictures(from);
        }
        enhance(document);
        showSelection();
        listen();
        })();
        """#
}
